// Package fairleaderelection elects leaders for programs that use the package leaderelection of
// client-go, without a request to an API server of Kubernetes.
//
//	err := fairleaderelection.Run(ctx, election.New(s, "controller"), fairleaderelection.Config{
//		Identity:        id,
//		ReleaseOnCancel: true,
//		Callbacks:       callbacks, // as for leaderelection.RunOrDie
//	})
//
// Run calls the callbacks itself, and keeps every promise of package election. Lock is for hosts
// that bring client-go's own LeaderElector with them, such as the manager of controller-runtime: it
// is the record of that elector. Both take any session.Session, and their candidates can share an
// election.
package fairleaderelection

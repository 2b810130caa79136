// Package faircertmagic makes processes with certmagic obtain and renew each certificate once.
//
//	storage := faircertmagic.NewStorage(&certmagic.FileStorage{Path: shared}, func(name string) *mutex.Mutex {
//		return mutex.New(s, "certs/"+name)
//	})
//	certmagic.Default.Storage = storage
//
// Storage keeps the assets where they were, and replaces the locks. After the loss of a lock it
// refuses what its former holder stores. It takes any session.Session.
package faircertmagic

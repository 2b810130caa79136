package fairleaderelection_test

import (
	"context"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	fairleaderelection "github.com/fairlock/fairlock/adapters/leaderelection"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// The code of docs/migrating.md before and after the change.
var (
	_ = func(ctx context.Context, lease *resourcelock.LeaseLock, id string, callbacks leaderelection.LeaderCallbacks) {
		meta, client := lease.LeaseMeta, lease.Client
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock:          &resourcelock.LeaseLock{LeaseMeta: meta, Client: client, LockConfig: resourcelock.ResourceLockConfig{Identity: id}},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			ReleaseOnCancel: true,
			Callbacks:       callbacks,
		})
	}
	_ = func(ctx context.Context, s *session.Session, id string, callbacks leaderelection.LeaderCallbacks) error {
		err := fairleaderelection.Run(ctx, election.New(s, "controller"), fairleaderelection.Config{
			Identity:        id,
			ReleaseOnCancel: true,
			Callbacks:       callbacks,
		})
		return err
	}
)

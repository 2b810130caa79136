package leaderelection

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	fairleaderelection "github.com/fairlock/fairlock/adapters/leaderelection"
)

// The durations of the hosts' electors. The TTL of the session decides, so they may be long.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 200 * time.Millisecond
)

// hosts campaign, work as the leader until ctx ends or the leadership is lost, and resign. What they
// write to standard error fails the test.
var hosts = map[string]func(context.Context, *candidate) error{"run": inRun, "elector": inElector, "manager": inManager}

func inRun(ctx context.Context, c *candidate) error {
	return fairleaderelection.Run(ctx, c.election(), fairleaderelection.Config{
		Identity:        c.ID,
		ReleaseOnCancel: true,
		WatchDog:        c.watchDog(&fairleaderelection.HealthzAdaptor{}),
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: c.work, OnStoppedLeading: func() { c.note(stopped, 0) }},
	})
}

func inElector(ctx context.Context, c *candidate) error {
	lock := fairleaderelection.NewLock(c.election(), c.ID)
	c.watchDog(lock.WatchDog())
	worked := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer close(worked)
				c.work(ctx)
			},
			OnStoppedLeading: func() { c.note(stopped, 0) },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(lock.Context(klog.NewContext(ctx, logger)))
	if elector.IsLeader() { // it has led
		<-worked
	}
	return lock.Close()
}

func inManager(ctx context.Context, c *candidate) error {
	var requests atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.NotFound(w, r)
	}))
	defer api.Close()
	log.SetLogger(logger)
	err := manage(ctx, &rest.Config{Host: api.URL}, c)
	if n := requests.Load(); n != 0 {
		return fmt.Errorf("%d requests to the API server", n)
	}
	return err
}

// manage runs a manager whose leader works.
func manage(ctx context.Context, api *rest.Config, c *candidate) error {
	period := retryPeriod
	lock := fairleaderelection.NewLock(c.election(), c.ID)
	mgr, err := manager.New(api, manager.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lock,
		BaseContext:                         func() context.Context { return lock.Context(context.Background()) },
		RetryPeriod:                         &period,
		Logger:                              logger,
		Metrics:                             server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	c.watchDog(lock.WatchDog())
	if err := mgr.AddHealthzCheck("leader", lock.WatchDog().Check); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		c.work(ctx)
		return nil
	})); err != nil {
		return err
	}
	if err := mgr.Start(lock.Context(ctx)); err != nil {
		return err // exit, and do not close the lock: work may go on
	}
	return lock.Close()
}

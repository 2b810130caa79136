package command

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	faircron "github.com/fairlock/fairlock/adapters/cron"
	fairgocron "github.com/fairlock/fairlock/adapters/gocron"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
	"github.com/fairlock/fairlock/telemetry/prometheus"
)

// TestToolsShowWhichSchedulerRunsWhichJob: the name of a lock has the scheduler and the job, and the
// session has the replica, as the pages of the adapters advise.
func TestToolsShowWhichSchedulerRunsWhichJob(t *testing.T) {
	withServices(t, schedulersAtWork)
}

func schedulersAtWork(t *testing.T, url string) {
	metrics := prometheus.New(nil)
	s, err := stores.Open(hang.Context(t), url, &stores.Options{
		Session: session.Options{Label: "billing", Hooks: metrics.Hooks()}, Timeout: hang.Guard,
	})
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	working := make(chan string, 10)
	work := func(name string) func(context.Context, *session.Hold, time.Time) error {
		return func(ctx context.Context, _ *session.Hold, _ time.Time) error {
			working <- name
			<-ctx.Done()
			return ctx.Err()
		}
	}

	elector := fairgocron.NewElector(election.New(s, "gocron"), "10.0.0.7:8080", nil)
	defer func() { assert.NoError(t, elector.Close()) }()
	scheduler, err := gocron.NewScheduler()
	require.NoError(t, err)
	once := fairgocron.NewOnce(mutex.New(s, "gocron/report"), work("report"))
	_, err = scheduler.NewJob(gocron.CronJob("* * * * * *", true), once.Task(), once.Schedule(), gocron.WithName("report"))
	require.NoError(t, err)
	scheduler.Start()
	defer func() { assert.NoError(t, scheduler.Shutdown()) }()
	c := cron.New()
	c.Schedule(faircron.OncePerTick(ctx, cron.Every(time.Second), mutex.New(s, "cron/cleanup"), cron.DiscardLogger, work("cleanup")))
	c.Start()
	defer func() {
		cancel()
		<-c.Stop().Done()
	}()
	at := []string{hang.Receive(t, working, "a job"), hang.Receive(t, working, "a job")}
	assert.ElementsMatch(t, []string{"report", "cleanup"}, at)
	hang.Until(t, func() bool { return elector.IsLeader(ctx) == nil }, "it leads")

	host, err := os.Hostname()
	require.NoError(t, err)
	me := fmt.Sprintf("%s pid %d", host, os.Getpid())
	r := rows(execute(t, url, "ls").stdout)
	require.Len(t, r, 4)
	for i, want := range [][]string{
		{"cron/cleanup", "mutex", me + " (billing)"},
		{"gocron", "election", "10.0.0.7:8080 (" + me + ")"},
		{"gocron/report", "mutex", me + " (billing)"},
	} {
		assert.Equal(t, want, columns(r[i+1])[:3])
	}
	assert.Contains(t, execute(t, url, "who", "gocron").stdout, "billing", "the label of a leader")

	registry := client.NewRegistry()
	require.NoError(t, registry.Register(metrics))
	families, err := registry.Gather()
	require.NoError(t, err)
	held := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "fairlock_holds" && m.GetGauge().GetValue() == 1 {
				held[labels["lock"]] = labels["kind"]
			}
		}
	}
	assert.Equal(t, map[string]string{"gocron": "election", "gocron/report": "mutex", "cron/cleanup": "mutex"}, held)
}

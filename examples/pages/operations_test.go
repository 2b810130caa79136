package pages

import (
	"context"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime/trace"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Counters and a readiness probe from the hooks of a session.
func Example_hooks() {
	open := func(ctx context.Context, client *clientv3.Client, mux *http.ServeMux) (*session.Session, error) {
		var alive atomic.Bool
		counts := expvar.NewMap("fairlock")
		mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
			if !alive.Load() {
				http.Error(w, "no session", http.StatusServiceUnavailable)
			}
		})
		return etcdbackend.Open(ctx, client, &etcdbackend.Options{Session: session.Options{
			Label:  "settle-7",
			Logger: slog.Default(),
			Hooks: session.Hooks{
				SessionOpened: func(session.Event) { alive.Store(true) },
				SessionLost:   func(session.Event) { alive.Store(false); counts.Add("sessions_lost", 1) },
				Lost:          func(context.Context, session.Event) { counts.Add("lost", 1) },
				Rejoined:      func(context.Context, session.Event) { counts.Add("rejoined", 1) },
				Released: func(_ context.Context, e session.Event) {
					if e.Err != nil {
						counts.Add("release_not_acknowledged", 1)
					}
				},
			},
		}})
	}
	_ = open
}

// Gauges and a trace from the hooks for requests.
func Example_trace() {
	type taskKey struct{}
	hooks := func(gauges *expvar.Map) session.Hooks {
		over := func(ctx context.Context, e session.Event) {
			gauges.Add("holding", -1)
			gauges.AddFloat("seconds held", e.Held.Seconds())
			ctx.Value(taskKey{}).(*trace.Task).End()
		}
		return session.Hooks{
			Started: func(ctx context.Context, e session.Event) context.Context {
				gauges.Add("waiting", 1)
				ctx, task := trace.NewTask(ctx, "fairlock "+e.Name)
				return context.WithValue(ctx, taskKey{}, task) // Hold.Context has it too
			},
			Ended: func(ctx context.Context, e session.Event) {
				gauges.Add("waiting", -1)
				gauges.AddFloat("seconds until "+string(e.Outcome), e.Waited.Seconds())
				if e.WaitedFor != nil {
					trace.Logf(ctx, "waited for", "session %s, token %d", e.WaitedFor.Session, e.WaitedFor.Token)
				}
				if e.Outcome == session.OutcomeGranted {
					gauges.Add("holding", 1)
					return
				}
				ctx.Value(taskKey{}).(*trace.Task).End()
			},
			Released: over,
			Lost:     over, // takes 1 from "holding", adds e.Held, and ends the task
		}
	}

	ctx := context.Background()
	gauges := new(expvar.Map)
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: hooks(gauges)})
	if err != nil {
		log.Fatal(err)
	}
	err = mutex.New(s, "backup").Do(ctx, func(context.Context, *session.Hold) error { return nil })
	fmt.Println(err, s.Close())
	fmt.Println("waiting", gauges.Get("waiting"), "holding", gauges.Get("holding"))
	// Output:
	// <nil> <nil>
	// waiting 0 holding 0
}

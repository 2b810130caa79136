package pages

import (
	"context"
	"expvar"
	"log/slog"
	"net/http"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
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
				Granted:       func(session.Event) { counts.Add("granted", 1) },
				Lost:          func(session.Event) { counts.Add("lost", 1) },
				Rejoined:      func(session.Event) { counts.Add("rejoined", 1) },
				Released: func(e session.Event) {
					if e.Err != nil {
						counts.Add("release_not_acknowledged", 1)
					}
				},
			},
		}})
	}
	_ = open
}

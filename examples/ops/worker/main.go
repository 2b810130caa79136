// Worker settles orders under a lock, one process at a time. It shows its state to an
// operator at one address: probes, metrics, and the requests that wait.
//
//	cd examples/ops && go run ./worker -on etcd://127.0.0.1:2379/orders -listen 127.0.0.1:8080
//
//	/readyz  /livez            the probes of Kubernetes, or of another supervisor
//	/metrics                   for Prometheus
//	/debug/fairlock/waits      Go stacks of the requests that wait
//
// SIGTERM ends it: the work stops, the lock is released, the session is closed. So the next
// process holds the lock at once, and not after the TTL.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
	"github.com/fairlock/fairlock/telemetry"
	"github.com/fairlock/fairlock/telemetry/health"
	fairprom "github.com/fairlock/fairlock/telemetry/prometheus"
	"github.com/fairlock/fairlock/telemetry/waits"
)

// shutdown is how long pending scrapes and probes may take at the end.
const shutdown = 2 * time.Second

func main() {
	w := &worker{}
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve probes and metrics")
	flag.StringVar(&w.on, "on", cmp.Or(os.Getenv("FAIRLOCK_ON"), "etcd://127.0.0.1:2379"), "the service")
	flag.StringVar(&w.lock, "lock", "orders/settle", "the lock")
	flag.DurationVar(&w.order, "order", time.Second, "how long an order takes")
	flag.StringVar(&w.options.Session.Label, "label", os.Getenv("POD_NAME"), "what fairlock who shows of this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err == nil {
		err = w.run(ctx, listener)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// worker is the program.
type worker struct {
	on, lock string
	order    time.Duration
	options  stores.Options
}

// run serves and works until ctx ends.
func (w *worker) run(ctx context.Context, listener net.Listener) error {
	probes, table, metrics := health.New(), waits.New(), fairprom.New(nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics, collectors.NewGoCollector())

	mux := http.NewServeMux()
	mux.Handle("/readyz", probes.Ready())
	mux.Handle("/livez", probes.Live())
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/fairlock/waits", table)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // ends with Shutdown
	log.Printf("serving at %s", listener.Addr())

	// The server runs until the session is closed: the last scrape is the most important.
	w.options.Session.Hooks = telemetry.Join(metrics.Hooks(), table.Hooks())
	err := w.work(ctx, probes)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	err = errors.Join(err, server.Shutdown(last))
	end := <-served
	if !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// work opens the session and settles orders until ctx ends.
func (w *worker) work(ctx context.Context, probes *health.Probes) error {
	s, err := w.open(ctx)
	if err != nil {
		return err
	}
	if s == nil {
		return nil // ctx has ended
	}
	probes.Add(s)
	log.Print("session opened")
	m := mutex.New(s, w.lock)
	for ctx.Err() == nil {
		err := m.Do(ctx, w.settle)
		switch {
		case errors.Is(err, session.ErrLost):
			log.Print(err) // the order is settled by the process that holds the lock now
		case err != nil && ctx.Err() == nil:
			return errors.Join(err, s.Close())
		}
	}
	err = s.Close() // no hold is left, so it does not wait for the margin
	log.Print("session closed")
	return err
}

// open opens the session, however long the service is unreachable. Meanwhile the program is
// alive and not ready. It returns no session and no error if ctx ends. What waiting cannot
// cure is an error: a wrong URL, a denied login.
func (w *worker) open(ctx context.Context) (*session.Session, error) {
	for ctx.Err() == nil {
		s, err := stores.Open(ctx, w.on, &w.options)
		if err == nil {
			return s, nil
		}
		if ctx.Err() == nil && !errors.Is(err, session.ErrUnavailable) {
			return nil, err
		}
		log.Print(err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return nil, nil
}

// settle does the work of one order, and stops when ctx ends: the lock was lost, or the
// program has to end. A real one hands h.Token to the resource; see examples/fencing.
func (w *worker) settle(ctx context.Context, h *session.Hold) error {
	select {
	case <-time.After(w.order):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	fmt.Printf("order settled, token %d\n", h.Token())
	return nil
}

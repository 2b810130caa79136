// Server is an HTTP server of which several processes serve the same data. It serves one request
// for each key at a time, over all processes. The data, a file for each key in a shared folder,
// refuses what comes too late.
//
//	SERVER_ETCD=127.0.0.1:2379 go run ./examples/server -listen 127.0.0.1:8080 -data DIR
//	curl -X POST http://127.0.0.1:8080/counters/visits
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/filefence"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	data := flag.String("data", ".", "the folder of the counters, which all processes share")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, strings.Split(os.Getenv("SERVER_ETCD"), ","), *listen, *data)
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, etcd []string, listen, data string) error {
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: etcd}, nil)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(serve(ctx, l, &counters{locks: s, folder: data, wait: 2 * time.Second}), s.Close())
}

// serve serves until ctx ends. It finishes the requests that are under way then, so that the
// session has no lock when it is closed.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		err = errors.Join(err, server.Close()) // the contexts of the requests end, and their locks
	}
	return err
}

// counters serves POST /counters/{key}, which adds 1 to a counter.
type counters struct {
	locks  *session.Session
	folder string
	wait   time.Duration             // the longest that a request waits for its turn
	work   func(ctx context.Context) // what takes long; nil for nothing
}

func (c *counters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, ok := strings.CutPrefix(r.URL.Path, "/counters/")
	if !ok || r.Method != http.MethodPost || key != filepath.Base(key) {
		http.NotFound(w, r)
		return
	}
	count, err := c.inTurn(r.Context(), key)
	if err != nil { // nothing was written to w before
		refuse(w, r, err)
		return
	}
	fmt.Fprintln(w, count)
}

// inTurn does the work of a request under the lock of its key. The work ends when the client goes
// away, and when the lock is lost.
func (c *counters) inTurn(request context.Context, key string) (count int, err error) {
	waits, cancel := context.WithTimeout(request, c.wait)
	defer cancel()
	h, err := mutex.New(c.locks, "counters/"+key).Lock(waits)
	if err != nil {
		return 0, err
	}
	defer func() {
		lost := h.Unlock()
		if err == nil && errors.Is(lost, session.ErrLost) {
			err = lost // another request may have been served meanwhile
		}
	}()
	ctx, end := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(request, func() { end(context.Cause(request)) })
	defer stop()
	return c.add(ctx, h, key) //nolint:contextcheck // it ends with both
}

// refuse answers a request that was not served.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case r.Context().Err() != nil: // the client has gone
	case errors.Is(err, fence.ErrStale), errors.Is(err, session.ErrNotAcquired):
		http.Error(w, err.Error(), http.StatusConflict) // a newer request has been served, or one is being served
	default: // the lock was lost, or the service of the locks is unreachable
		log.Print(r.URL.Path, ": ", err)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}

// add is the work of a request. The file checks the token in both steps: after the first one no
// earlier holder can write any more.
func (c *counters) add(ctx context.Context, h *session.Hold, key string) (int, error) {
	path := filepath.Join(c.folder, key)
	text, err := filefence.Read(ctx, path, h.Token(), session.Exclusive)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	count, _ := strconv.Atoi(string(text))
	if c.work != nil {
		c.work(ctx)
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return count + 1, filefence.Write(ctx, path, []byte(strconv.Itoa(count+1)), 0o600, h.Token())
}

package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/ui"
)

// site is a service in memory and a server with its page.
type site struct {
	t     *testing.T
	store *membackend.Store
	link  *membackend.Client // between the page's server and the service
	s     *session.Session
	o     ui.Options
	addr  string
	stop  func()
	fail  sync.Map // queues that the server cannot read, with the errors
	hide  sync.Map // keys of entries that its login may not read
}

// newSite starts a server with the page.
func newSite(t *testing.T, o ui.Options) *site {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	o.Logger = quiet
	st := &site{t: t, store: membackend.New(), o: o}
	st.link = st.store.NewClient()
	failure := func(queue string) error {
		err, _ := st.fail.Load(queue)
		failed, _ := err.(error)
		return failed
	}
	hides := func(ref driver.Ref) bool {
		_, hidden := st.hide.Load(ref.Key)
		return hidden
	}
	var err error
	st.s, err = session.Engine(door.Key{}).Open(t.Context(), memtest.HideEntries(memtest.FailReads(st.link.Backend(), failure), hides), &session.Options{Label: "fairlock ui", TTL: 10 * time.Second, Logger: quiet})
	require.NoError(t, err)
	st.addr = "127.0.0.1:0"
	st.serve()
	t.Cleanup(func() {
		st.stop()
		_ = st.s.Close() // where the link is cut, nothing is acknowledged
	})
	return st
}

// serve starts the server, on the address that it had before.
func (st *site) serve() {
	st.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(st.t.Context(), "tcp", st.addr)
	require.NoError(st.t, err)
	st.addr = l.Addr().String()
	base, cancel := context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/ops/locks/", ui.Handler(st.s, &st.o))
	server := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return base }, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	st.stop = func() {
		cancel()
		_ = server.Close()
		<-served
	}
}

// url returns the URL of the page.
func (st *site) url() string { return "http://" + st.addr + "/ops/locks/" }

// process is a program with a session.
type process struct {
	st     *site
	d      driver.Session
	meta   owner.Meta
	closed bool
}

// process opens a session as that of a program on another host.
func (st *site) process(host string, pid int, label string) *process {
	st.t.Helper()
	const ttl = time.Hour // the tests renew nothing
	margin := func(ttl time.Duration) time.Duration { return ttl / 10 }
	d, err := st.store.Backend().Open(st.t.Context(), driver.Config{
		TTL: ttl, Margin: margin, Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {}, Logger: st.s.Options().Logger,
	})
	require.NoError(st.t, err)
	p := &process{st: st, d: d, meta: owner.Meta{Host: host, PID: pid, Label: label, TTL: 15 * time.Second}}
	st.t.Cleanup(func() {
		if !p.closed {
			assert.NoError(st.t, d.Close(context.Background()))
		}
	})
	return p
}

// claim changes what an entry claims.
type claim func(r *driver.JoinRequest, m *owner.Meta)

func waits(d time.Duration) claim {
	return func(_ *driver.JoinRequest, m *owner.Meta) { m.Since = time.Now().Add(-d) }
}

func holds(d time.Duration) claim {
	return func(_ *driver.JoinRequest, m *owner.Meta) {
		m.Since, m.Granted = time.Now().Add(-d), time.Now().Add(-d)
	}
}

func kind(k string, mode driver.Mode, weight int64) claim {
	return func(r *driver.JoinRequest, m *owner.Meta) { m.Kind, r.Mode, r.Weight = k, mode, weight }
}

func limit(n int64) claim {
	return func(r *driver.JoinRequest, _ *owner.Meta) {
		r.Ops = []driver.Op{{Record: "limit", Value: fmt.Append(nil, n), Optional: true}}
	}
}

func having(names ...string) claim {
	return func(_ *driver.JoinRequest, m *owner.Meta) { m.Holds = names }
}

func trace(v string) claim {
	return func(_ *driver.JoinRequest, m *owner.Meta) { m.Trace = v }
}

func value(v string) claim {
	return func(r *driver.JoinRequest, _ *owner.Meta) { r.Valued, r.Data = true, []byte(v) }
}

// join puts an entry at the end of a queue.
func (p *process) join(name string, claims ...claim) driver.Ref {
	p.st.t.Helper()
	m := p.meta
	m.Kind, m.Since = "mutex", time.Now()
	r := driver.JoinRequest{Queue: name}
	for _, c := range claims {
		c(&r, &m)
	}
	r.Detail = m.Encode()
	if !r.Valued {
		r.Data = m.Encode()
	}
	joined, err := p.d.Join(p.st.t.Context(), r)
	require.NoError(p.st.t, err)
	return joined[0].Entry.Ref
}

// leave deletes an entry.
func (p *process) leave(ref driver.Ref) {
	p.st.t.Helper()
	_, err := p.d.Leave(p.st.t.Context(), driver.LeaveRequest{Ref: ref})
	require.NoError(p.st.t, err)
}

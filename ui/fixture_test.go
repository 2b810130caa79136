package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/ui"
)

// fixture is a service in memory, a server with the page, and a client of that server.
// All of it is in one bubble of synctest.
type fixture struct {
	t      *testing.T
	store  *membackend.Store
	link   *membackend.Client // between the page's server and the service
	s      *session.Session
	server *http.Server
	http   *http.Client
	pipes  *pipes
	token  string
	fail   sync.Map // queues that the server cannot read, with the errors
	hide   sync.Map // keys of entries that its login may not read
}

// inBubble runs a test with a fixture, and checks that nothing is left of it.
func inBubble(t *testing.T, o ui.Options, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, store: membackend.New(), pipes: newPipes()}
		f.link = f.store.NewClient()
		var err error
		f.s, err = session.Engine(door.Key{}).Open(t.Context(), memtest.HideEntries(memtest.FailReads(f.link.Backend(), f.failure), f.hides), &session.Options{Label: "page", TTL: 10 * time.Second})
		require.NoError(t, err)
		base, cancel := context.WithCancel(context.Background())
		f.server = &http.Server{Handler: ui.Handler(f.s, &o), BaseContext: func(net.Listener) context.Context { return base }, ReadHeaderTimeout: time.Minute}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = f.server.Serve(f.pipes)
		}()
		transport := &http.Transport{DialContext: f.pipes.dial, MaxConnsPerHost: 0}
		f.http = &http.Client{Transport: transport}

		test(f)

		cancel()
		stopping, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		require.NoError(t, f.server.Shutdown(stopping), "pages end with the base context")
		<-served
		transport.CloseIdleConnections()
		require.NoError(t, f.s.Close())
	})
}

// failure returns why the server cannot read a queue, or nil.
func (f *fixture) failure(queue string) error {
	err, _ := f.fail.Load(queue)
	failed, _ := err.(error)
	return failed
}

// hides reports whether the login of the server may not read an entry.
func (f *fixture) hides(ref driver.Ref) bool {
	_, hidden := f.hide.Load(ref.Key)
	return hidden
}

// worker opens a session of its own that the end of the test closes.
func (f *fixture) worker(label string) *session.Session {
	f.t.Helper()
	s, err := f.store.NewClient().Open(f.t.Context(), &session.Options{Label: label, TTL: 10 * time.Second})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { assert.NoError(f.t, s.Close()) })
	return s
}

// get returns an answer and its body.
func (f *fixture) get(path string, header ...string) (*http.Response, string) {
	f.t.Helper()
	return f.do(http.MethodGet, path, "", header...)
}

// post sends an action with the token of the page.
func (f *fixture) post(path string, body any, header ...string) (int, string) {
	f.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(f.t, err)
	res, answer := f.do(http.MethodPost, path, string(text), append([]string{"X-Fairlock-Token", f.token}, header...)...)
	return res.StatusCode, answer
}

func (f *fixture) do(method, path, body string, header ...string) (*http.Response, string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	require.NoError(f.t, err)
	for pair := range slices.Chunk(header, 2) {
		if pair[0] == "Host" {
			req.Host = pair[1]
		}
		req.Header.Set(pair[0], pair[1])
	}
	res, err := f.http.Do(req)
	require.NoError(f.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, res.Body.Close())
	return res, string(text)
}

// state returns the whole state, as JSON that a page reads.
func (f *fixture) state() state {
	f.t.Helper()
	_, text := f.get("/state")
	var s state
	require.NoError(f.t, json.Unmarshal([]byte(text), &s), text)
	f.token = s.Token
	return s
}

// The JSON that a page reads. Entries are kept as they came.
type (
	entry struct {
		ID, Token, Host, Label, Key, Session, Value, Mode, Kind string
		PID                                                     int
		Holder, With, Foreign, Unleased                         bool
		Weight, Asked, Granted, Seen, TTL                       int64
		Holds                                                   []string
		Trace                                                   string
	}
	lockState struct {
		N          int
		Name, Show string
		Kind       string
		Limit, At  int64
		Whole      bool
		Entries    []entry
		Rm         []string
		Set, Add   []entry
		Asks       []struct{ Reason, Host, Label string }
		Hidden     struct {
			N      int
			First  string
			Holder bool
		}
	}
	link  struct{ In, For, Owns, Waits, Host, Label string }
	state struct {
		Service, Command, Token, Prefix string

		Seq      uint64
		Evict    bool
		Interval int64
		Status   struct {
			Now, At, Since int64
			Err, Why       string
			Unread         int
			Health         struct {
				Ready     bool
				Left, TTL int64
				Label     string
			}
		}
		Locks []lockState
		Gone  []int
		All   bool
		Waits *struct {
			Links     []link
			More      int
			Deadlocks []struct {
				Steps  []link
				Behind int
			}
		}
	}
	past struct {
		Asked  bool
		Unread bool
		Err    string
		Holds  []struct {
			Token, Label   string
			From, Seen, To int64
			Sure           bool
		}
	}
)

// lock returns the lock of a name, and whether there is one.
func (s state) lock(name string) (lockState, bool) {
	i := slices.IndexFunc(s.Locks, func(l lockState) bool { return l.Name == name })
	if i < 0 {
		return lockState{}, false
	}
	return s.Locks[i], true
}

// labels returns the labels of entries, holders with a +, joined to the one before with &.
func labels(entries []entry) string {
	var b strings.Builder
	for i, e := range entries {
		switch {
		case e.With:
			b.WriteByte('&')
		case i > 0:
			b.WriteByte(' ')
		}
		b.WriteString(e.Label)
		if e.Holder {
			b.WriteByte('+')
		}
	}
	return b.String()
}

// page is an open stream of events.
type page struct {
	f      *fixture
	cancel context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	events []event
}

type event struct{ kind, data string }

// page opens a page.
func (f *fixture) page() *page {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/events", nil)
	require.NoError(f.t, err)
	res, err := f.http.Do(req)
	require.NoError(f.t, err)
	require.Equal(f.t, http.StatusOK, res.StatusCode)
	assert.Equal(f.t, "text/event-stream", res.Header.Get("Content-Type"))
	p := &page{f: f, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		defer func() { _ = res.Body.Close() }()
		var e event
		lines := bufio.NewReader(res.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch field {
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				p.mu.Lock()
				p.events = append(p.events, e)
				p.mu.Unlock()
				e = event{}
			}
		}
	}()
	return p
}

// close leaves the page, and returns when its connection is gone.
func (p *page) close() {
	p.cancel()
	<-p.ended
	synctest.Wait()
}

// take returns the events that have come since the last call.
func (p *page) take() []event {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.events
	p.events = nil
	return all
}

// apply changes a state as the page does with a tick.
func (s *state) apply(t *testing.T, data string) {
	t.Helper()
	var m state
	require.NoError(t, json.Unmarshal([]byte(data), &m), data)
	require.Equal(t, s.Seq+1, m.Seq)
	s.Seq, s.Status, s.All = m.Seq, m.Status, m.All
	for _, n := range m.Gone {
		s.Locks = slices.DeleteFunc(s.Locks, func(l lockState) bool { return l.N == n })
	}
	for _, c := range m.Locks {
		i := slices.IndexFunc(s.Locks, func(l lockState) bool { return l.N == c.N })
		switch {
		case c.Whole && i < 0:
			s.Locks = append(s.Locks, c)
			continue
		case c.Whole:
			s.Locks[i] = c
			continue
		}
		require.GreaterOrEqual(t, i, 0, data)
		l := &s.Locks[i]
		l.Kind, l.Limit, l.Asks, l.Hidden, l.At = c.Kind, c.Limit, c.Asks, c.Hidden, c.At
		l.Entries = slices.DeleteFunc(l.Entries, func(e entry) bool { return slices.Contains(c.Rm, e.ID) })
		for _, e := range c.Set {
			l.Entries[slices.IndexFunc(l.Entries, func(o entry) bool { return o.ID == e.ID })] = e
		}
		l.Entries = append(l.Entries, c.Add...)
	}
	if m.Waits != nil {
		s.Waits = m.Waits
	}
}

// pipes is a listener whose connections are pipes in memory, which synctest knows.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, errors.New("the server is gone")
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.done) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "ui.test", Net: "pipe"} }

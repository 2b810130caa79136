package pgbackend

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/pgbackend/internal/fakepg"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a backend on a server of the test, in virtual time. Its fields up to mu are what the server
// answers.
type fake struct {
	*backend
	server fakepg.Server
	life   layout.Life

	examined func(c *fakepg.Conn) []any // instead of a whole store
	renewed  func(n int) fakepg.Reply   // the answer to the n-th renewal, from 0 on
	opened   func(n int) fakepg.Reply   // to the n-th attempt at making the session
	sessions [][]any                    // of Sweep
	refusal  string                     // of the end of a session
	joined   *fakepg.Reply              // to a join; nil for one that makes no entry
	watchers [][]any                    // of SweepWatchers

	mu    sync.Mutex
	log   bytes.Buffer
	renew []time.Time // when renewals reached the server
	opens int
	ended []string // the session and version of each end
	texts []string

	unwatched []string // the queue and version of each end of a row in table watcher
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{life: layout.Life{System: "6", Timeline: "00000001", Started: 5}}
	f.server.Answer = f.answer
	b, err := ConfigBackend(f.server.Config(), &Options{Listen: ListenOff})
	require.NoError(t, err)
	f.backend = b.(*backend) //nolint:forcetypeassert // it is
	f.clock = fakepg.NewClock()
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		<-time.After(time.Minute) // connections that were given up are closed by then
	})
	return f
}

// whole is the answer of a store that is whole.
func (f *fake) whole(c *fakepg.Conn) []any {
	return []any{
		int64(c.Pid), false, 150000, "UTF8", "on", "", "read committed", f.life.System, f.life.Timeline, f.life.Started,
		layout.Version, f.life.String(), int64(0), nil, 0, time.Minute.Milliseconds(), "secret",
	}
}

func (f *fake) answer(c *fakepg.Conn, sql string, args []string) fakepg.Reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.texts = append(f.texts, sql)
	texts := f.layout.NewTexts(f.life, "secret")
	switch sql {
	case f.layout.Examine():
		if f.examined != nil {
			return fakepg.Rows(f.examined(c)...)
		}
		return fakepg.Rows(f.whole(c)...)
	case texts.Open:
		f.opens++
		if f.opened != nil {
			return f.opened(f.opens - 1)
		}
		return fakepg.Rows(1)
	case texts.Renew:
		f.renew = append(f.renew, time.Now())
		if f.renewed != nil {
			return f.renewed(len(f.renew) - 1)
		}
		return fakepg.Rows(len(f.renew))
	case texts.EndSession:
		f.ended = append(f.ended, strings.Join(args, " "))
		return fakepg.Reply{Tag: "DELETE 1", Code: f.refusal}
	case texts.JoinOne:
		if f.joined != nil {
			return *f.joined
		}
	case texts.Sweep:
		return fakepg.Reply{Rows: f.sessions, Columns: 3}
	case texts.SweepWatchers:
		return fakepg.Reply{Rows: f.watchers, Columns: 2}
	case texts.EndWatcher:
		f.unwatched = append(f.unwatched, strings.Join(args, " "))
		return fakepg.Reply{Tag: "DELETE 1"}
	}
	return fakepg.Reply{Tag: "OK"}
}

// Write takes in what is logged.
func (f *fake) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(b)
}

// logged returns what was logged so far.
func (f *fake) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

// ends returns the session and version of each end so far.
func (f *fake) ends() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ended)
}

// set changes what the server answers.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// owner is a session of a fake, and what it reports.
type owner struct {
	driver.Session

	mu   sync.Mutex
	sent []driver.Instant // of each proof
	gone []error
}

// open opens a session that is closed at the end of the test.
func (f *fake) open(t *testing.T, ttl time.Duration) *owner {
	t.Helper()
	o, err := f.tryOpen(t.Context(), t, ttl)
	require.NoError(t, err)
	return o
}

func (f *fake) tryOpen(ctx context.Context, t *testing.T, ttl time.Duration) (*owner, error) {
	t.Helper()
	o := &owner{}
	s, err := f.Open(ctx, driver.Config{
		TTL: ttl, Observer: ttl == 0, Margin: f.Info().Margin, Logger: slog.New(slog.NewTextHandler(f, nil)),
		Renewed: func(sent driver.Instant, _, _ time.Duration) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.sent = append(o.sent, sent)
		},
		Gone: func(err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.gone = append(o.gone, err)
		},
	})
	if err != nil {
		return nil, err
	}
	o.Session = s
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // a test may have ended it
	return o, nil
}

// proofs returns when the proofs so far were sent.
func (o *owner) proofs() []driver.Instant {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]driver.Instant(nil), o.sent...)
}

func (o *owner) losses() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.gone)
}

// number returns a session's ID as the statements have it.
func number(t *testing.T, id string) int64 {
	t.Helper()
	n, ok := layout.ParseSessionID(id)
	require.True(t, ok)
	return n
}

package redisbackend

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/redisbackend/internal/fakeredis"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 10 * time.Second

// passes lets time pass.
func passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// fake is a backend on a server of the test, in virtual time. Its fields up to mu are what the server
// answers.
type fake struct {
	*backend
	server fakeredis.Server

	examined func(args []string) []any            // instead of a whole root
	renewed  func(n int) any                      // the answer to the n-th renewal, from 0 on; the first makes the session
	answers  func(name string, args []string) any // to other scripts
	acks     func(n int) any                      // the answer to the n-th WAIT
	sessions []any                                // that a renewal shows

	mu    sync.Mutex
	log   bytes.Buffer
	seen  []sent
	waits int
	renew int
}

// sent is a request that has reached the server.
type sent struct {
	name string // of a script; of a command that is none
	args []string
	conn int
	at   driver.Instant
}

const life = "0123abcd"

func newFake(t *testing.T, o *Options) *fake {
	t.Helper()
	f := &fake{}
	f.server.Answer = f.answer
	b, err := NewBackend(f.server.Option("a:1", "b:2"), o)
	require.NoError(t, err)
	f.backend = b.(*backend) //nolint:forcetypeassert // it is
	f.clock = fakeredis.NewClock()
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		<-time.After(time.Minute) // connections that were given up are closed by then
	})
	return f
}

// names returns the names of the scripts by their sums.
var names = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, k := range []script.Kind{{}, {Cluster: true}, {Flags: true}, {Cluster: true, Flags: true}} {
		for _, v := range reflect.ValueOf(*script.New(k)).Fields() {
			if s, ok := v.Interface().(script.Script); ok {
				all[s.SHA] = s.Name
			}
		}
	}
	return all
})

// whole is the answer of a root that is whole.
func (f *fake) whole() []any {
	return []any{
		"OK", life, 0, layoutVersion, life, "", "0", strconv.FormatInt(f.opts.MaxTTL.Milliseconds(), 10), strconv.Itoa(f.opts.Nodes),
		"noeviction", strconv.Itoa(f.opts.Nodes - 1), "standalone", "7.0.15",
	}
}

func (f *fake) answer(c *fakeredis.Conn, command []string) any {
	s := sent{name: command[0], conn: c.Number, at: f.clock.Now()}
	if s.name == "EVALSHA" {
		s.name = names()[command[1]]
		s.args = command[4:]
	}
	f.mu.Lock()
	f.seen = append(f.seen, s)
	n := 0
	switch s.name {
	case "WAIT":
		n = f.waits
		f.waits++
	case "renew":
		n = f.renew
		f.renew++
	}
	f.mu.Unlock()
	switch {
	case s.name == "examine" && f.examined != nil:
		return f.examined(s.args)
	case s.name == "examine":
		return f.whole()
	case s.name == "WAIT" && f.acks != nil:
		return f.acks(n)
	case s.name == "WAIT":
		return 1
	case s.name == "renew" && f.renewed != nil:
		return f.renewed(n)
	case s.name == "renew" || s.name == "see":
		f.mu.Lock()
		defer f.mu.Unlock()
		return []any{"OK", append([]any{}, f.sessions...), []any{}}
	case f.answers != nil:
		return f.answers(s.name, s.args)
	}
	return []any{"OK"}
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

// requests returns those of one script or command so far.
func (f *fake) requests(name string) []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.seen), func(s sent) bool { return s.name != name })
}

// ends returns the session and version of each end so far.
func (f *fake) ends() []string {
	var all []string
	for _, s := range f.requests("finish") {
		all = append(all, strings.Join(s.args[1:], " "))
	}
	return all
}

// set changes what the server answers.
func (f *fake) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// owner is a session of a fake, and what it reports.
type owner struct {
	*redisSession

	mu     sync.Mutex
	proofs []driver.Instant // when each was sent
	lost   []error
}

// open opens a session that is closed at the end of the test.
func (f *fake) opens(t *testing.T, ttl time.Duration) *owner {
	t.Helper()
	o, err := f.tryOpen(t.Context(), t, ttl)
	require.NoError(t, err)
	return o
}

// tryOpen opens a session, an observer if it has no TTL.
func (f *fake) tryOpen(ctx context.Context, t *testing.T, ttl time.Duration) (*owner, error) {
	t.Helper()
	o := &owner{}
	s, err := f.Open(ctx, driver.Config{
		TTL: ttl, Observer: ttl == 0, Margin: f.Info().Margin, Logger: slog.New(slog.NewTextHandler(f, nil)),
		Renewed: func(sent driver.Instant, _, _ time.Duration) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.proofs = append(o.proofs, sent)
		},
		Gone: func(err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.lost = append(o.lost, err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	o.redisSession = s.(*redisSession)                      //nolint:forcetypeassert // it is
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // a test may have ended it
	return o, nil
}

// proved returns when the proofs so far were sent.
func (o *owner) proved() []driver.Instant {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.proofs)
}

func (o *owner) losses() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lost)
}

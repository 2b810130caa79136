package telemetrytest

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// The Sessions of the suite are renewed every 20 s, in a trust window of nearly 80 s.
const (
	ttl     = 100 * time.Second
	margin  = 20 * time.Second
	renewal = 20 * time.Second
)

// fixture is a service with a Session that the exporter observes, and one of another
// process, which it does not.
type fixture struct {
	t       *testing.T
	store   *membackend.Store
	net     *membackend.Client // of the Session
	s       *session.Session
	other   *session.Session
	ex      Exporter
	shown   map[telemetry.ID]bool
	fresh   func() Exporter // makes one more
	options session.Options
	began   time.Time
	window  time.Duration // the trust window of the Session
}

func newFixture(t *testing.T, open Open, o *telemetry.Options, shown map[telemetry.ID]bool) *fixture {
	x := &fixture{t: t, store: membackend.New(), ex: open(t, o), shown: shown, began: time.Now()}
	x.fresh = func() Exporter { return open(t, o) }
	x.options = session.Options{TTL: ttl, Margin: margin, Hooks: x.ex.Hooks, Logger: slog.New(slog.DiscardHandler)}
	x.net = x.store.NewClient()
	x.s = x.open(x.net)
	x.window = x.s.Health().Left
	var err error
	x.other, err = x.store.Open(t.Context(), &session.Options{TTL: time.Hour})
	require.NoError(t, err)
	return x
}

// open opens a Session that the exporter observes.
func (x *fixture) open(c *membackend.Client) *session.Session {
	x.t.Helper()
	s, err := c.Open(x.t.Context(), &x.options)
	require.NoError(x.t, err)
	return s
}

// close ends the Sessions, after which every gauge is back at zero.
func (x *fixture) close() {
	require.NoError(x.t, x.s.Close())
	require.NoError(x.t, x.other.Close())
	for _, s := range x.ex.Read() {
		switch telemetry.Metrics()[s.ID].Kind {
		case telemetry.UpDownCounter:
			assert.Zero(x.t, s.Value, "at the end: %s", s)
		case telemetry.Gauge:
			assert.Fail(x.t, "no session is open", "%s", s)
		default:
		}
	}
}

// shows compares all that the exporter shows with samples. A counter or gauge that is
// zero counts as not there. Renewals are added: with a few seconds in a case they are
// the same in all.
func (x *fixture) shows(want ...Sample) {
	x.t.Helper()
	synctest.Wait()
	n := int(time.Since(x.began) / renewal)
	if n > 0 && !slices.ContainsFunc(want, func(s Sample) bool { return s.ID == telemetry.RenewalSlack }) {
		want = append(want, measured(telemetry.RenewalSlack, telemetry.Values{}, slices.Repeat([]float64{(x.window - renewal).Seconds()}, n)...))
	}
	x.showsExactly(want)
}

func (x *fixture) showsExactly(want []Sample) {
	x.t.Helper()
	var got []Sample
	for _, s := range x.ex.Read() {
		if s.Value != 0 || s.Counts != nil || telemetry.Metrics()[s.ID].Kind == telemetry.Gauge {
			got = append(got, s)
		}
	}
	assert.ElementsMatch(x.t, texts(want), texts(got))
	for _, s := range want {
		x.shown[s.ID] = true
	}
}

// texts returns samples as sorted lines, which make a better difference than structs.
func texts(all []Sample) []string {
	lines := make([]string, len(all))
	for i, s := range all {
		lines[i] = s.String()
	}
	slices.SortFunc(lines, cmp.Compare[string])
	return lines
}

// live are the samples of the one open Session, to be shown with others.
func (x *fixture) live(others ...Sample) []Sample {
	since := time.Since(x.began) % renewal
	return append(others,
		counted(telemetry.Sessions, 1, telemetry.Values{}),
		counted(telemetry.SessionSlack, (x.window-since).Seconds(), telemetry.Values{}))
}

// renewedNow are the samples of the one open Session if it was renewed now for the first
// time, so long after it was opened.
func (x *fixture) renewedNow(after time.Duration) []Sample {
	return []Sample{
		counted(telemetry.Sessions, 1, telemetry.Values{}),
		counted(telemetry.SessionSlack, x.window.Seconds(), telemetry.Values{}),
		measured(telemetry.RenewalSlack, telemetry.Values{}, (x.window - after).Seconds()),
	}
}

// lock acquires a mutex at once.
func (x *fixture) lock(s *session.Session, name string) *session.Hold {
	x.t.Helper()
	h, err := mutex.New(s, name).Lock(x.t.Context())
	require.NoError(x.t, err)
	return h
}

// acquire is a call that acquires a lock.
type acquire func(ctx context.Context) (*session.Hold, error)

// waits starts a request, and returns when it waits. What it is granted comes from the
// channel.
func (x *fixture) waits(f acquire) <-chan *session.Hold {
	x.t.Helper()
	granted := make(chan *session.Hold, 1)
	go func() {
		h, err := f(x.t.Context())
		assert.NoError(x.t, err)
		granted <- h
	}()
	synctest.Wait()
	require.Empty(x.t, granted)
	return granted
}

// unlock releases locks.
func (x *fixture) unlock(holds ...*session.Hold) {
	x.t.Helper()
	for _, h := range holds {
		require.NoError(x.t, h.Unlock())
	}
}

package contention

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// read returns the profile after it was written and read again.
func read(t *testing.T, p *Profile) *profile.Profile {
	t.Helper()
	require.NoError(t, p.Profile().CheckValid())
	var b bytes.Buffer
	require.NoError(t, p.Profile().Write(&b))
	back, err := profile.Parse(&b)
	require.NoError(t, err)
	return back
}

// sums returns the sum of a sample type below each frame, from the root on.
func sums(p *profile.Profile, value int) map[string]int64 {
	all := map[string]int64{}
	for _, s := range p.Sample {
		var path strings.Builder
		for i := len(s.Location) - 1; i >= 0; i-- {
			path.WriteString("/" + s.Location[i].Line[0].Function.Name)
			all[path.String()] += s.Value[value]
		}
	}
	return all
}

// Time is virtual here, so the number of reads that find each waiter is exact.
func TestContentionIsCountedByLockHolderAndWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := membackend.New()
		open := func(label string) *session.Session {
			s, err := store.Open(t.Context(), &session.Options{Label: label})
			require.NoError(t, err)
			return s
		}
		one, two, three := open("one"), open("two"), open("three")
		ctx, cancel := context.WithCancel(t.Context())
		a, err := mutex.New(one, "a").Lock(ctx)
		require.NoError(t, err)
		_, err = mutex.New(one, "free").Lock(ctx)
		require.NoError(t, err)
		for _, s := range []*session.Session{two, three} {
			go func() { // ends with ctx
				_, _ = mutex.New(s, "a").Lock(ctx)
			}()
			synctest.Wait()
		}
		p := New("memory", time.Now(), time.Second)
		for i := range 10 {
			if i == 6 {
				require.NoError(t, a.Unlock()) // two holds, three waits for it
			}
			synctest.Wait()
			queues, err := inspect.ReadAll(ctx, one, "")
			require.NoError(t, err)
			p.Add(queues, time.Second)
			time.Sleep(time.Second)
		}
		cancel()
		for _, s := range []*session.Session{one, two, three} {
			_ = s.Close()
		}

		got := read(t, p)

		host, err := os.Hostname()
		require.NoError(t, err)
		frame := func(kind, label string) string { return "/" + kind + " " + host + " (" + label + ")" }
		want := map[string]int64{
			"/lock a":                          6*2 + 4,
			"/lock a" + frame("holder", "one"): 6 * 2,
			"/lock a" + frame("holder", "two"): 4,
			"/lock a" + frame("holder", "one") + frame("waiter", "two"):   6,
			"/lock a" + frame("holder", "one") + frame("waiter", "three"): 6,
			"/lock a" + frame("holder", "two") + frame("waiter", "three"): 4,
		}
		assert.Equal(t, want, sums(got, 0))
		for path := range want {
			want[path] *= int64(time.Second)
		}
		assert.Equal(t, want, sums(got, 1))
		assert.Equal(t, []any{10, 16, 1, int64(10 * time.Second)}, []any{p.Reads, p.Waiters, p.Locks(), got.DurationNanos})
		assert.Equal(t, typeDelay, got.DefaultSampleType)
		assert.Equal(t, []string{host}, got.Sample[0].Label["host"])
		assert.Equal(t, []string{"two"}, got.Sample[0].Label["label"])
		assert.NotEmpty(t, got.Sample[0].Label["pid"])
	})
}

func TestWaitersOfSeveralHoldersAreCountedOnce(t *testing.T) {
	entry := func(state, host string, pid int) schema.Entry {
		return schema.Entry{State: state, Host: host, PID: pid}
	}
	p := New("memory", time.Unix(1, 0), time.Second)
	p.Add([]schema.Queue{
		{Name: "gpu", Entries: []schema.Entry{entry(schema.Holder, "h", 1), entry(schema.Holder, "h", 2), entry(schema.Waiter, "w", 3)}},
		{Name: "x", Entries: []schema.Entry{entry(schema.Waiter, "w", 3), {State: schema.Waiter, Foreign: true, Key: "k"}}},
	}, time.Second)

	assert.Equal(t, map[string]int64{
		"/lock gpu": 1, "/lock gpu/holder h pid 1": 1, "/lock gpu/holder h pid 1/waiter w pid 3": 1,
		"/lock x": 2, "/lock x/holder (no holder)": 2, "/lock x/holder (no holder)/waiter w pid 3": 1,
		"/lock x/holder (no holder)/waiter another program's k": 1,
	}, sums(read(t, p), 0))
	assert.Empty(t, read(t, New("memory", time.Unix(1, 0), time.Second)).Sample)
}

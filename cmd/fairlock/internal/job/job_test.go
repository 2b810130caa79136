package job

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{
		1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 101: "101st", 111: "111th", 1000: "1000th",
	} {
		assert.Equal(t, want, ordinal(n))
	}
}

func TestAStackRefusesItsOwnNamesAtItsOwnService(t *testing.T) {
	text, err := json.Marshal(stack{{Name: "a", PID: 7, At: "etcd://x:2379/", NS: "pid:[of a parent]"}})
	require.NoError(t, err)
	s, err := readStack(string(text))
	require.NoError(t, err)

	assert.NoError(t, s.check("b", "etcd://x:2379/"))
	assert.NoError(t, s.check("a", "etcd://y:2379/"))
	err = s.check("a", "etcd://x:2379/")
	require.EqualError(t, err, `deadlock: "a" is already held by parent pid 7, which waits for us`)
	var e *exit.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, exit.Usage, e.Code)

	_, err = readStack("{")
	assert.EqualError(t, err, "FAIRLOCK_STACK is not what fairlock sets: unset it, or leave it alone")
}

func TestTheServiceIDDoesNotDependOnTheOrderOfServers(t *testing.T) {
	at := func(url string) string {
		target, err := (&connect.Flags{On: url, Getenv: func(string) string { return "" }}).Target()
		require.NoError(t, err)
		return serviceID(target)
	}

	assert.Equal(t, at("etcd://a,b/root"), at("etcd://ops:secret@b:2379,a"+"/root?ttl=5s"))
	assert.NotContains(t, at("etcd://ops:secret@b"), "secret")
	assert.NotEqual(t, at("etcd://a/root"), at("etcd://a/other"))
	assert.NotEqual(t, at("etcd://a"), at("zk://a"))
	assert.Equal(t, at("postgres://ops@a/x"), at("postgresql://ann:secret@a:5432/x?schema=fairlock&ttl=5s"))
	for _, other := range []string{"postgres://a/y", "postgres://a/x?schema=s", "postgres://a/x?root=r"} {
		assert.NotEqual(t, at("postgres://a/x"), at(other))
	}
}

func TestCheckOnce(t *testing.T) {
	assert.NoError(t, CheckOnce("2026-11-20T17:34"))
	assert.EqualError(t, CheckOnce(""), "--once wants a key, such as the time for which the job is")
	assert.EqualError(t, CheckOnce(strings.Repeat("x", 257)), "--once takes at most 256 bytes of UTF-8")
	assert.EqualError(t, CheckOnce("\xff"), "--once takes at most 256 bytes of UTF-8")
}

// The time that a command has to stop depends on why the lock was lost.
func TestADeletedEntryLeavesTimeToStop(t *testing.T) {
	st := membackend.New()
	s, err := st.Open(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	h, err := mutex.New(s, "a").Lock(t.Context())
	require.NoError(t, err)
	l := &lease{hold: h, clock: driver.SystemClock()}
	before := l.left()
	require.Positive(t, before)

	require.True(t, st.Delete("a", recipetest.Refs(h)[0].Key))
	<-h.Context().Done()

	assert.Zero(t, h.Remaining())
	left := l.left()
	assert.Positive(t, left)
	assert.Less(t, left, before)
}

func TestTheTokenFileIsWrittenAtomically(t *testing.T) {
	s, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	h, err := mutex.New(s, "a").Lock(t.Context())
	require.NoError(t, err)
	dir := t.TempDir()
	j := &job{Options: Options{TokenFile: filepath.Join(dir, "token")}}

	require.NoError(t, j.writeToken(h))

	text, err := os.ReadFile(j.TokenFile)
	require.NoError(t, err)
	assert.Equal(t, "1\n", string(text))
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, all, 1)
	j.TokenFile = filepath.Join(dir, "none", "token")
	assert.ErrorContains(t, j.writeToken(h), "--token-file: ")
	assert.EqualError(t, j.checkTokenFile(), "--token-file "+j.TokenFile+": no such file or directory")
	j.TokenFile = dir
	assert.EqualError(t, j.checkTokenFile(), "--token-file "+dir+": is a directory")
	j.TokenFile = filepath.Join(dir, "token")
	require.NoError(t, j.checkTokenFile())
	all, err = os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, all, 1, "it leaves no temporary file")
}

func TestTheGraceFitsTheSession(t *testing.T) {
	s, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	for _, c := range []struct {
		least time.Duration
		grace time.Duration // -1: not given
		want  time.Duration // -1: refused
	}{
		{13500 * time.Millisecond, -1, 5 * time.Second},
		{4 * time.Second, -1, 2 * time.Second},
		{4 * time.Second, 0, 0},
		{13500 * time.Millisecond, 6700 * time.Millisecond, 6700 * time.Millisecond},
		{13500 * time.Millisecond, 6800 * time.Millisecond, -1},
	} {
		j := &job{s: s, least: c.least}
		if c.grace >= 0 {
			j.Grace = &c.grace
		}

		err = j.fitGrace()

		if c.want < 0 {
			assert.EqualError(t, err, "--grace 6.8s is too long for a session of 15s, which needs time to be renewed: want at most 6.7s, or a longer --ttl")
		} else if assert.NoError(t, err) {
			assert.Equal(t, c.want, *j.Grace)
		}
	}
}

// healthy is a session of a service that answers at once: how much is left to the deadline
// when a renewal comes, at least. It is 0 where the backend refuses the TTL.
type healthy func(ttl time.Duration) (least time.Duration)

func onEtcd(ttl time.Duration) time.Duration { return (ttl - max(ttl/10, time.Second)) * 2 / 3 }

// onZooKeeper: in an ensemble a heartbeat proves the one two before it. A standalone server
// has no tick here.
func onZooKeeper(tick time.Duration) healthy {
	return func(ttl time.Duration) time.Duration {
		window, lag := ttl-max(ttl/10, 100*time.Millisecond), ttl/8
		if tick > 0 {
			lag = 3 * max(ttl/8, tick*5/4)
		}
		if window-lag < ttl/4 {
			return 0
		}
		return window - lag
	}
}

// With each TTL that a service accepts, a renewal can be late, by a third of what is left
// then, and the command is not stopped.
func TestNoTTLStopsAHealthyCommand(t *testing.T) {
	for name, of := range map[string]healthy{
		"etcd": onEtcd, "ZooKeeper": onZooKeeper(0), "an ensemble": onZooKeeper(2 * time.Second), "a fast ensemble": onZooKeeper(200 * time.Millisecond),
	} {
		tested := 0
		for ttl := 2 * time.Second; ttl <= 10*time.Minute; ttl += 100 * time.Millisecond {
			j := &job{least: of(ttl)}
			if j.least == 0 {
				continue
			}
			tested++
			require.NoError(t, j.fitGrace())
			assert.Positive(t, *j.Grace, "on %s with a TTL of %v", name, ttl)
			assert.Less(t, *j.Grace, j.least*2/3, "on %s with a TTL of %v", name, ttl)
		}
		assert.Greater(t, tested, 5800, name)
	}
}

func TestAnExpiredWaitReportsHowManyAreAheadAndHowLongItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		holder, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		defer holder.Close()
		h, err := mutex.New(holder, "busy").Lock(t.Context())
		require.NoError(t, err)
		defer recipetest.Unlock(t, h)
		s, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		defer s.Close()
		wait := 200 * time.Millisecond
		j := &job{Options: Options{Name: "busy", Wait: &wait}, s: s}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()

		_, err = mutex.New(s, "busy").Lock(ctx)
		err = j.failed(err)

		assert.Regexp(t, `^busy: not acquired: held by .*, 1 ahead, waited for 200ms$`, err.Error())
		var e *exit.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, exit.NotAcquired, e.Code)
	})
}

func TestTheConflictCodeCanBeZero(t *testing.T) {
	zero := 0
	j := &job{Options: Options{Name: "a", ConflictCode: &zero}}

	var e *exit.Error
	require.ErrorAs(t, j.failed(session.ErrNotAcquired), &e)
	assert.Zero(t, e.Code)
}

package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/redisbackend/internal/fakeredis"
	"github.com/fairlock/fairlock/redisbackend/internal/link"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ok = []any{"OK", "done"}

var text = script.New(script.Kind{}).Read

// world is a Sender and its server.
type world struct {
	*Sender
	server fakeredis.Server

	mu       sync.Mutex
	began    time.Time
	requests []request
}

// request is what has reached the server.
type request struct {
	command string // EVALSHA, EVAL, WAIT
	addr    string
	conn    int
	at      time.Duration
	args    []string // of a script
}

// newWorld returns a sender to a server that answers its n-th script, from 0 on, by answer. Each of the
// addresses a and b leads to it.
func newWorld(t *testing.T, answer func(n int, r request) any) *world {
	t.Helper()
	w := &world{began: time.Now()}
	n := 0
	w.server.Answer = func(c *fakeredis.Conn, command []string) any {
		w.mu.Lock()
		r := request{command: command[0], addr: c.Addr, conn: c.Number, at: time.Since(w.began)}
		if strings.HasPrefix(r.command, "EVAL") {
			r.args = command[4:]
			n++
		}
		w.requests = append(w.requests, r)
		n := n - 1
		w.mu.Unlock()
		return answer(n, r)
	}
	finder, err := link.NewFinder(w.server.Option("a:1", "b:2"))
	require.NoError(t, err)
	w.Sender = &Sender{Line: link.NewLine(finder), Prefix: "{r}:", Clock: fakeredis.NewClock(), Turns: NewTurns(), Over: t.Context()}
	t.Cleanup(func() {
		w.Line.Close()
		<-time.After(time.Minute) // connections that were given up are closed by then
	})
	return w
}

// seen returns the requests so far.
func (w *world) seen() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

func (w *world) commands() (all []string) {
	for _, r := range w.seen() {
		all = append(all, r.command)
	}
	return all
}

func (w *world) addresses() (all []string) {
	for _, r := range w.seen() {
		all = append(all, r.addr)
	}
	return all
}

// job is a script whose only argument is the number of the attempt.
func job() Request {
	return Request{Op: fault.Read, Script: &text, Args: func(attempt int) script.Args { return script.Args{fmt.Sprint(attempt)} }}
}

func TestEachErrorHasAnOutcome(t *testing.T) {
	inside := " script: 0123, on @user_script:7."
	for text, want := range map[string]struct {
		outcome outcome
		err     error
	}{
		"MOVED 7 b:2": {notDone, nil}, "ASK 7 b:2": {notDone, nil}, "TRYAGAIN x": {notDone, nil}, "CLUSTERDOWN x": {notDone, nil},
		"READONLY x": {notDone, nil}, "READONLY x" + inside: {notDone, nil}, "LOADING x": {notDone, nil}, "MASTERDOWN x": {notDone, nil},
		"BUSY x": {notDone, nil}, "NOSCRIPT x": {notDone, nil}, "NOREPLICAS x": {notDone, nil}, "MISCONF x": {notDone, nil},
		"OOM x": {unclear, nil}, "OOM x" + inside: {unclear, nil},
		"NOPERM x": {incurable, driver.ErrDenied}, "NOAUTH x": {incurable, driver.ErrDenied}, "WRONGPASS x": {incurable, driver.ErrDenied},
		"NOPERM x" + inside: {stopped, driver.ErrDenied},
		"ERR x":             {incurable, driver.ErrRefused}, "WRONGTYPE x": {incurable, driver.ErrRefused},
		"ERR x" + inside: {stopped, driver.ErrRefused}, "WRONGTYPE x" + inside: {stopped, driver.ErrRefused},
	} {
		outcome, err := judge(fmt.Errorf("wrapped: %w", serverSays(t, text)))
		assert.Equal(t, want.outcome, outcome, text)
		if want.err != nil {
			require.ErrorIs(t, err, want.err, text)
		}
		assert.Equal(t, want.err != nil, driver.Incurable(err), text)
	}
}

// serverSays returns the error that the client makes of an error of the server.
func serverSays(t *testing.T, text string) (says error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, request) any { return fakeredis.Error(text) })
		_, says = w.Once(t.Context(), job(), nil, time.Minute)
		require.Error(t, says)
	})
	return says
}

func TestErrorsOfTheClientHaveAnOutcome(t *testing.T) {
	for want, errs := range map[outcome][]error{
		done:      {nil},
		notDone:   {errReplica, fmt.Errorf("%w: no connection", errNotSent)},
		unclear:   {errors.New("connection reset"), context.DeadlineExceeded, rueidis.ErrClosing},
		incurable: {fmt.Errorf("%w: %w", errNotSent, link.ErrClosed)},
	} {
		for _, err := range errs {
			got, _ := judge(err)
			assert.Equal(t, want, got, "%v", err)
		}
	}
	_, err := judge(link.ErrClosed)
	require.ErrorIs(t, err, driver.ErrClosed)
}

// A login that the server refuses is found out when a connection is made, before anything is sent.
func TestALoginThatIsRefusedIsDenied(t *testing.T) {
	err := fmt.Errorf("%w: %w", errNotSent, fmt.Errorf("connect to a:1: %w", serverSays(t, "WRONGPASS invalid username-password pair")))
	outcome, err := judge(err)
	assert.Equal(t, incurable, outcome)
	require.ErrorIs(t, err, driver.ErrDenied)
}

func TestExplainReturnsErrorsOfTheDriver(t *testing.T) {
	require.NoError(t, Explain(nil))
	require.ErrorIs(t, Explain(errors.New("reset")), driver.ErrUnavailable)
	require.ErrorIs(t, Explain(link.ErrClosed), driver.ErrClosed)
}

func TestAScriptThatTheServerDoesNotKnowIsSentAsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(n int, r request) any {
			if n == 0 {
				return fakeredis.Error("NOSCRIPT No matching script")
			}
			return []any{"OK", r.args[0]}
		})
		a, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.Equal(t, "0", a.Text(1), "it is one attempt")
		assert.False(t, a.Unknown)
		assert.True(t, a.Proven)
		_, err = w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.Equal(t, []string{"EVALSHA", "EVAL", "EVALSHA"}, w.commands())
	})
}

// What is silent is given up later each time: a slow server must not be made slower.
func TestAttemptsThatAreNotAnsweredTakeLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(n int, r request) any {
			if n < 6 {
				return fakeredis.Silent{}
			}
			return []any{"OK", r.args[0]}
		})
		a, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.True(t, a.Unknown, "an earlier attempt may have been carried out")
		assert.Equal(t, "6", a.Text(1))
		all := w.seen()
		require.Len(t, all, 7)
		for i, seconds := range []int{1, 2, 4, 8, 10, 10} {
			least := time.Duration(seconds) * time.Second
			took := all[i+1].at - all[i].at
			assert.GreaterOrEqual(t, took, least, "attempt %d", i)
			assert.Less(t, took, least+300*time.Millisecond, "attempt %d", i)
			assert.NotEqual(t, all[i].conn, all[i+1].conn, "each costs its connection")
		}
		assert.Equal(t, []string{"a:1", "b:2", "a:1", "b:2", "a:1", "b:2", "a:1"}, w.addresses(), "and its server")
	})
}

func TestAnAttemptHasTimeForWhatItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(n int, _ request) any {
			if n == 0 {
				return fakeredis.Silent{}
			}
			return ok
		})
		r := job()
		r.Args = func(int) script.Args { return script.Args{strings.Repeat("x", 4*bytesPerSecond)} }
		_, err := w.Do(t.Context(), r)
		require.NoError(t, err)
		all := w.seen()
		assert.GreaterOrEqual(t, all[1].at-all[0].at, firstTimeout+4*time.Second)
		assert.Less(t, all[1].at-all[0].at, firstTimeout+5*time.Second)
	})
}

// A server that is slow answers in turn. A request that waits behind others must not end the connection of all.
func TestAConnectionThatAnswersOthersIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, request) any {
			<-time.After(700 * time.Millisecond)
			return ok
		})
		var all sync.WaitGroup
		var unknown [2]bool
		for i := range unknown {
			all.Go(func() {
				a, err := w.Do(t.Context(), job())
				assert.NoError(t, err)
				unknown[i] = a.Unknown
			})
		}
		all.Wait()
		assert.Contains(t, unknown, true, "one attempt was not answered in its own time")
		assert.Len(t, w.seen(), 3)
		assert.Len(t, w.server.Logins(), 1)
	})
}

func TestALateAnswerIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(n int, r request) any {
			if n == 0 {
				<-time.After(1500 * time.Millisecond)
			}
			return []any{"OK", r.args[0]}
		})
		a, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.Equal(t, "1", a.Text(1))
		assert.True(t, a.Unknown)
		b, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.Equal(t, "0", b.Text(1), "it is not answered with what was for another one")
		assert.False(t, b.Unknown)
	})
}

// The caller gave up. That shows nothing about the connection, which others use.
func TestACallersCancelDropsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, request) any {
			return fakeredis.Silent{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		began := time.Now()
		a, err := w.Do(ctx, job())
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorIs(t, err, context.Canceled)
		assert.True(t, a.Unknown, "it may be carried out")
		assert.Equal(t, 500*time.Millisecond, time.Since(began))
		assert.Len(t, w.server.Logins(), 1)
		n, err := w.Line.Node(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "a:1", n.Addr)
		assert.Len(t, w.server.Logins(), 1, "the connection is still that of the line")
	})
}

func TestACancelBeforeAnythingWasSentIsNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, request) any { return ok })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a, err := w.Do(ctx, job())
		require.ErrorIs(t, err, context.Canceled)
		assert.False(t, a.Unknown)
		assert.Empty(t, w.seen())
	})
}

func TestASessionThatIsOverEndsItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, request) any { return fakeredis.Silent{} })
		over, end := context.WithCancelCause(t.Context())
		w.Over = over
		time.AfterFunc(300*time.Millisecond, func() { end(driver.ErrSessionOver) })
		began := time.Now()
		a, err := w.Do(t.Context(), job())
		require.ErrorIs(t, err, driver.ErrSessionOver)
		assert.True(t, a.Unknown)
		assert.Less(t, time.Since(began), 600*time.Millisecond)
		assert.Len(t, w.server.Logins(), 1, "the end of a session says nothing about the connection")
		_, err = w.Do(t.Context(), job())
		require.ErrorIs(t, err, driver.ErrSessionOver)
		assert.Len(t, w.seen(), 1)
	})
}

func TestOtherServersAreAskedWhereOneIsNotTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refusal := range []any{
			fakeredis.Error("READONLY You can't write against a read only replica."),
			fakeredis.Error("LOADING Redis is loading the dataset in memory"),
			fakeredis.Error("MASTERDOWN Link with MASTER is down"),
			fakeredis.Error("CLUSTERDOWN The cluster is down"),
			[]any{script.Replica},
		} {
			w := newWorld(t, func(_ int, r request) any {
				if r.addr == "a:1" {
					return refusal
				}
				return ok
			})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			a, err := w.Do(ctx, job())
			stop()
			require.NoError(t, err, "%v", refusal)
			assert.Equal(t, []string{"a:1", "b:2"}, w.addresses(), "%v", refusal)
			assert.False(t, a.Unknown, "%v: it was not done there", refusal)
		}
	})
}

func TestAServerThatIsBusyIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []string{"BUSY", "TRYAGAIN", "NOREPLICAS", "MISCONF", "OOM"} {
			w := newWorld(t, func(n int, _ request) any {
				if n < 3 {
					return fakeredis.Error(kind + " not now")
				}
				return ok
			})
			a, err := w.Do(t.Context(), job())
			require.NoError(t, err, kind)
			assert.Equal(t, kind == "OOM", a.Unknown, "%s: a script may delete before it cannot write", kind)
			assert.Len(t, w.seen(), 4, kind)
			assert.Len(t, w.server.Logins(), 1, kind)
		}
	})
}

func TestMOVEDLeadsToTheServerThatItNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ int, r request) any {
			if r.addr != "c:3" {
				return fakeredis.Error("MOVED 866 c:3")
			}
			return ok
		})
		a, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.False(t, a.Unknown)
		_, err = w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.Equal(t, []string{"a:1", "c:3", "c:3"}, w.addresses())
	})
}

// The server that a node names may be dead already.
func TestAServerThatIsNamedAndFailsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(n int, r request) any {
			if r.addr == "a:1" && n == 0 {
				return fakeredis.Error("MOVED 866 c:3")
			}
			return ok
		})
		w.server.Refuses = func(addr string) error {
			if addr == "c:3" {
				return errors.New("connection refused")
			}
			return nil
		}
		_, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.Equal(t, []string{"a:1", "b:2"}, w.addresses())
	})
}

func TestAConnectionThatBreaksIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(n int, _ request) any {
			if n == 0 {
				return fakeredis.Break{}
			}
			return ok
		})
		a, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.True(t, a.Unknown)
		assert.Len(t, w.server.Logins(), 2)

		w.server.Cut() // while nothing is under way
		_, err = w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.Len(t, w.server.Logins(), 3)
	})
}

func TestADenialOrRefusalEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			text    string
			err     error
			inside  bool
			earlier bool
		}{
			{"NOPERM no right", driver.ErrDenied, false, false},
			{"ERR no such command", driver.ErrRefused, false, false},
			{"NOPERM no right script: 01", nil, true, false},
			{"NOPERM no right", nil, false, true},
		} {
			w := newWorld(t, func(n int, _ request) any {
				if n == 0 && c.earlier {
					return fakeredis.Break{}
				}
				return fakeredis.Error(c.text)
			})
			a, err := w.Do(t.Context(), job())
			assert.Equal(t, c.inside || c.earlier, a.Unknown, c.text)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				assert.Len(t, w.seen(), 1)
				continue
			}
			require.ErrorIs(t, err, driver.ErrUnavailable, "a part may have been done")
			assert.False(t, driver.Incurable(err))
			require.ErrorContains(t, err, c.text)
		}
	})
}

func TestALineThatIsClosedEndsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, request) any { return fakeredis.Silent{} })
		time.AfterFunc(200*time.Millisecond, w.Line.Close)
		a, err := w.Do(t.Context(), job())
		require.ErrorIs(t, err, driver.ErrClosed)
		assert.True(t, a.Unknown, "the attempt may have been carried out")
		a, err = w.Do(t.Context(), job())
		require.ErrorIs(t, err, driver.ErrClosed)
		assert.False(t, a.Unknown)
	})
}

// waited is a request that wants one replica to have the write.
func waited() Request {
	r := job()
	r.Acks, r.Within = 1, 500*time.Millisecond
	return r
}

func TestAWriteIsProvenByTheReplicasBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for acks, proven := range map[int]bool{0: false, 1: true, 2: true} {
			w := newWorld(t, func(_ int, r request) any {
				if r.command == "WAIT" {
					return acks
				}
				return ok
			})
			a, err := w.Do(t.Context(), waited())
			require.NoError(t, err)
			assert.Equal(t, proven, a.Proven, "%d", acks)
			all := w.seen()
			assert.Equal(t, []string{"EVALSHA", "WAIT"}, w.commands())
			assert.Equal(t, all[0].conn, all[1].conn, "the server counts what was written on the same connection")
		}
	})
}

// A script that failed has written nothing, so any replica has it.
func TestAWaitBehindAScriptThatFailedProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scripts := 0
		w := newWorld(t, func(n int, r request) any {
			switch {
			case r.command == "WAIT" && scripts == 1:
				return 1
			case r.command == "WAIT":
				return 0
			}
			scripts++
			if n == 0 {
				return fakeredis.Error("NOSCRIPT No matching script")
			}
			return ok
		})
		a, err := w.Do(t.Context(), waited())
		require.NoError(t, err)
		assert.False(t, a.Proven)
		assert.Equal(t, []string{"EVALSHA", "WAIT", "EVAL", "WAIT"}, w.commands())

		_, err = newWorld(t, func(_ int, r request) any {
			if r.command == "WAIT" {
				return 1
			}
			return fakeredis.Error("ERR broken")
		}).Do(t.Context(), waited())
		require.ErrorIs(t, err, driver.ErrRefused)
	})
}

// It counts from the sending of the attempt that was answered.
func TestAnAnswerHasTheTimeOfItsOwnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(n int, _ request) any {
			switch n {
			case 0:
				return fakeredis.Silent{}
			case 1:
				<-time.After(700 * time.Millisecond)
				return fakeredis.Error("NOSCRIPT No matching script")
			}
			<-time.After(500 * time.Millisecond)
			return ok
		})
		began := w.Clock.Now()
		a, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		all := w.seen()
		assert.Equal(t, all[2].at, a.Sent.Sub(began), "that of the text")
		assert.Equal(t, 500*time.Millisecond, w.Clock.Now().Sub(a.Sent))
	})
}

// Beyond its ring of 1024 the client would block, and not return with its context.
func TestRequestsBeyondTheTurnsWaitWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, request) any {
			<-time.After(900 * time.Millisecond)
			return ok
		})
		w.Turns = make(Turns, 2)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _, _ = w.Once(t.Context(), job(), nil, time.Hour) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		a, err := w.Do(ctx, job())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, a.Unknown, "it was not sent")
		all.Wait()
		assert.Len(t, w.seen(), 2)
		_, err = w.Do(t.Context(), job())
		require.NoError(t, err)
	})
}

// A test that keeps a request for later must not have its answer taken for that of another one.
func TestAHookDecidesWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ int, r request) any { return []any{"OK", r.args[0]} })
		var late func()
		n := 0
		w.Hook = func(ctx context.Context, op fault.Op, send func(ctx context.Context) error) error {
			assert.Equal(t, fault.Read, op)
			n++
			if n == 1 {
				late = func() { _ = send(context.WithoutCancel(ctx)) }
				return errors.New("reset")
			}
			return send(ctx)
		}
		a, err := w.Do(t.Context(), job())
		require.NoError(t, err)
		assert.Equal(t, "1", a.Text(1))
		assert.True(t, a.Unknown)
		late()
		assert.Len(t, w.seen(), 2)
	})
}

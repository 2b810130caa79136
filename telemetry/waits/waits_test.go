package waits_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/waits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// page returns the answer to a GET request.
func page(t *testing.T, table http.Handler, query string) string {
	t.Helper()
	w := httptest.NewRecorder()
	table.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/fairlock/waits"+query, http.NoBody))
	require.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	return w.Body.String()
}

// open opens a Session whose requests the table shows.
func open(t *testing.T, c *membackend.Client, table *waits.Table) *session.Session {
	t.Helper()
	s, err := c.Open(context.Background(), &session.Options{TTL: 10 * time.Second, Margin: time.Second, Hooks: table.Hooks(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s
}

// settleOrders and payBills are what the stacks must show.
func settleOrders(ctx context.Context, m *mutex.Mutex) (*session.Hold, error) { return m.Lock(ctx) }

func payBills(ctx context.Context, m *mutex.Mutex) (*session.Hold, error) { return m.Lock(ctx) }

// inOrder checks that a text has all of these, one after the other.
func inOrder(t *testing.T, text string, want ...string) {
	t.Helper()
	rest := text
	for _, w := range want {
		_, after, found := strings.Cut(rest, w)
		require.True(t, found, "%q is missing, or not in order, in:\n%s", w, text)
		rest = after
	}
}

func TestTheLongestWaitIsFirstWithItsStackAndThatOfTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waits.New()
		s := open(t, membackend.New().NewClient(), table)
		defer s.Close()
		orders, bills := mutex.New(s, "orders/settle"), mutex.New(s, "bills \"<b>\n")
		first, err := settleOrders(t.Context(), orders)
		require.NoError(t, err)
		other, err := bills.Lock(t.Context())
		require.NoError(t, err)
		var all sync.WaitGroup
		wait := func(lock func(context.Context, *mutex.Mutex) (*session.Hold, error), m *mutex.Mutex) {
			all.Go(func() {
				h, err := lock(context.Background(), m)
				if assert.NoError(t, err) {
					assert.NoError(t, h.Unlock())
				}
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		wait(payBills, bills)
		for pause := 2 * time.Second; pause < 4*time.Second; pause += time.Second {
			time.Sleep(pause)
			wait(settleOrders, orders)
		}
		time.Sleep(4 * time.Second)

		text := page(t, table, "")

		t.Log("\n" + text)
		inOrder(t, text, "3 waiting for a lock in this process, 2 holding. The longest wait is 9s.\n",
			`"bills \"<b>\n" mutex: 1 waiting at`, "mutex.(*Mutex).Lock\n", "waits_test.payBills\n", "waits_test.go:",
			"for 9s, exclusive, 1 ahead, token ",
			`"orders/settle" mutex: 2 waiting at`, "mutex.(*Mutex).Lock\n", "waits_test.settleOrders\n",
			"for 7s, exclusive, 1 ahead, token ", "for 4s, exclusive, 2 ahead, token ",
			fmt.Sprintf("held here for 10s, exclusive, token %s of session ", first.Token()), "waits_test.settleOrders\n")
		assert.NotContains(t, text, "internal/queue", "the inside of the library")
		assert.NotContains(t, text, "runtime.goexit")
		assert.Contains(t, page(t, table, "?n=1"), "Shown are the 1 longest; ?n=10 shows more.")

		require.NoError(t, first.Unlock())
		require.NoError(t, other.Unlock())
		all.Wait()
		synctest.Wait()
		assert.Equal(t, "0 waiting for a lock in this process, 0 holding.\n", page(t, table, ""))
	})
}

// Every way in which a request or a hold ends takes it out of the table.
func TestNothingStaysInTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waits.New()
		c := membackend.New().NewClient()
		s := open(t, c, table)
		m := mutex.New(s, "orders")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)

		_, err = m.TryLock(t.Context()) // taken
		require.ErrorIs(t, err, session.ErrNotAcquired)
		bounded, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = m.Lock(bounded) // gives up
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = m.Lock(h.Context()) // is refused
		require.ErrorIs(t, err, session.ErrReentrant)
		_, err = mutex.New(s, "").Lock(t.Context())
		require.ErrorIs(t, err, session.ErrInvalidName)
		synctest.Wait()
		assert.Contains(t, page(t, table, ""), "0 waiting for a lock in this process, 1 holding.")

		c.Cut(fault.Both) // the hold is lost
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Contains(t, page(t, table, ""), "0 waiting for a lock in this process, 0 holding.")

		c.Heal()
		require.NoError(t, s.Close())
		_, err = m.Lock(t.Context()) // the Session is closed
		require.ErrorIs(t, err, session.ErrClosed)
		assert.Contains(t, page(t, table, ""), "0 waiting for a lock in this process, 0 holding.")
	})
}

func TestAnOutageIsSeenInThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waits.New()
		store := membackend.New()
		elsewhere, err := store.Open(t.Context(), nil)
		require.NoError(t, err)
		defer elsewhere.Close()
		sem := semaphore.New(elsewhere, "gpu", 3)
		h, err := sem.Acquire(t.Context(), 2)
		require.NoError(t, err)
		c := store.NewClient()
		s := open(t, c, table)
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := semaphore.New(s, "gpu", 3).Acquire(ctx, 2)
			done <- err
		}()
		synctest.Wait()
		inOrder(t, page(t, table, ""), `"gpu" semaphore: 1 waiting at`, "(*Semaphore).Acquire", "weighted, 2 permits, 1 ahead, token",
			"not held in this process: fairlock who shows the holder")

		c.Cut(fault.Both)
		time.Sleep(15 * time.Second)
		inOrder(t, page(t, table, ""), "for 15s, weighted, 2 permits, not in the queue yet, has lost its place 1 times")
		c.Heal()
		time.Sleep(15 * time.Second)
		inOrder(t, page(t, table, ""), "for 30s, weighted, 2 permits, 1 ahead, token ", "has lost its place 1 times")

		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, h.Unlock())
	})
}

func TestHoldersOfOtherProcessesAreReadAtTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waits.New()
		store := membackend.New()
		elsewhere, err := store.Open(t.Context(), &session.Options{Label: "nightly <b>\x1b[31m"})
		require.NoError(t, err)
		defer elsewhere.Close()
		h, err := mutex.New(elsewhere, "orders").Lock(t.Context())
		require.NoError(t, err)
		c := store.NewClient()
		s := open(t, c, table)
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := settleOrders(ctx, mutex.New(s, "orders"))
			done <- err
		}()
		time.Sleep(5 * time.Second)
		handler := table.WithHolders(s)

		text := page(t, handler, "")
		inOrder(t, text, `"orders" mutex: 1 waiting at`, "held by ", fmt.Sprintf("pid %d", os.Getpid()), `("nightly <b>\x1b[31m") for 5s`,
			fmt.Sprintf(", token %s of session ", h.Token()))
		assert.NotContains(t, text, "not held in this process")
		assert.NotContains(t, text, "\x1b")

		other, err := membackend.New().Open(t.Context(), nil) // of another service
		require.NoError(t, err)
		defer other.Close()
		assert.Contains(t, page(t, table.WithHolders(other), ""), "not held in this process")

		c.Cut(fault.Both)
		before := time.Now()
		text = page(t, handler, "")
		assert.LessOrEqual(t, time.Since(before), time.Second)
		inOrder(t, text, `"orders" mutex: 1 waiting at`, "the holder could not be read: ", "not held in this process")

		c.Heal()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, h.Unlock())
	})
}

// A hundred thousand requests wait, and hold: the page and the profile stay short.
func TestAHundredThousandWaiters(t *testing.T) {
	table := waits.New()
	hooks := table.Hooks()
	began := time.Now().Add(-time.Hour)
	for i := range uint64(100_000) {
		e := session.Event{ID: i, At: began.Add(time.Duration(i) * time.Millisecond), Name: fmt.Sprint("lock-", i%20_000), Kind: "mutex"}
		hooks.Started(t.Context(), e)
		held := hooks.Started(t.Context(), e)
		e.Outcome = session.OutcomeGranted
		hooks.Ended(held, e)
	}

	text := page(t, table, "")
	inOrder(t, text, "100000 waiting for a lock in this process, 100000 holding.", "Shown are the 100 longest; ?n=1000 shows more.", `"lock-0" mutex: 1 waiting at`, `"lock-99" mutex`)
	assert.NotContains(t, text, `"lock-100"`)
	assert.Equal(t, 10_000, strings.Count(page(t, table, "?n=10000"), " waiting at\n"))
	assert.Less(t, len(page(t, table, "?debug=0")), 1_000_000)
}

func TestAProfileHasStacksTimesAndLabels(t *testing.T) {
	table := waits.New()
	hooks := table.Hooks()
	now := time.Now()
	started := func(ctx context.Context) { settle(ctx, hooks, now) }
	for range 3 {
		pprof.Do(t.Context(), pprof.Labels("team", "books"), started)
	}
	started(t.Context())
	file := filepath.Join(t.TempDir(), "waits.pb.gz")
	require.NoError(t, os.WriteFile(file, []byte(page(t, table, "?debug=0")), 0o600))

	raw := pprofOf(t, "-raw", file)
	top := pprofOf(t, "-sample_index=waiters", "-tagfocus=team=books", "-top", file)

	t.Log(raw)
	inOrder(t, raw, "waiters/count delay/nanoseconds", "lock:[orders]", "team:[books]", "lock:[orders]", "Locations", "waits_test.settle ", "waits_test.go:")
	assert.Regexp(t, `(?m)^ +3 +3[67]\d{10}: `, raw, "three that wait two minutes each, and a moment")
	assert.Regexp(t, `(?m)^ +1 +1[23]\d{10}: `, raw)
	assert.Contains(t, raw, "kind:[mutex]")
	assert.Regexp(t, `(?m)^ +3 .*waits_test\.settle`, top)
}

// settle is what the profile must show.
func settle(ctx context.Context, hooks session.Hooks, now time.Time) {
	hooks.Started(ctx, session.Event{Name: "orders", Kind: "mutex", At: now.Add(-2 * time.Minute)})
}

func pprofOf(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"tool", "pprof"}, args...)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &problems)
	return string(out)
}

// goroutineLabels returns the labels of the calling goroutine, as the goroutine profile
// shows them.
func goroutineLabels(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&out, 1))
	for block := range strings.SplitSeq(out.String(), "\n\n") {
		if strings.Contains(block, "waits_test.goroutineLabels") {
			_, labels, _ := strings.Cut(block, "# labels: ")
			labels, _, _ = strings.Cut(labels, "\n")
			return labels
		}
	}
	return "no goroutine"
}

// The context of Lock need not carry the labels of its goroutine.
func TestLabelsOfTheGoroutineStayAsTheyWere(t *testing.T) {
	table := waits.New()
	s := open(t, membackend.New().NewClient(), table)
	defer s.Close()
	pprof.Do(t.Context(), pprof.Labels("team", "books"), func(context.Context) {
		require.JSONEq(t, `{"team":"books"}`, goroutineLabels(t))

		h, err := mutex.New(s, "orders").Lock(t.Context())
		require.NoError(t, err)
		assert.JSONEq(t, `{"team":"books"}`, goroutineLabels(t), "while it holds")
		require.NoError(t, h.Unlock())

		assert.JSONEq(t, `{"team":"books"}`, goroutineLabels(t))
	})
	assert.Empty(t, goroutineLabels(t))
}

// The way of ExampleTable.
func TestLabelsAroundTheCallAreInTheProfileOfGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waits.New()
		s := open(t, membackend.New().NewClient(), table)
		defer s.Close()
		m := mutex.New(s, "orders")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go pprof.Do(ctx, pprof.Labels("lock", "orders", "kind", "mutex"), func(ctx context.Context) {
			_, err := settleOrders(ctx, m)
			done <- err
		})
		synctest.Wait()

		var goroutines bytes.Buffer
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&goroutines, 1))

		var waiting strings.Builder
		for block := range strings.SplitSeq(goroutines.String(), "\n\n") {
			if strings.Contains(block, "waits_test.settleOrders") {
				waiting.WriteString(block)
			}
		}
		assert.Contains(t, waiting.String(), `# labels: {"kind":"mutex", "lock":"orders"}`)
		inOrder(t, page(t, table, ""), `label "kind": "mutex"`, `label "lock": "orders"`)

		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, h.Unlock())
	})
}

func TestHooksAroundThoseOfATableHideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := waits.New()
		hooks := table.Hooks()
		inner := hooks.Started
		hooks.Started = func(ctx context.Context, e session.Event) context.Context { return inner(ctx, e) }
		s, err := membackend.New().Open(context.Background(), &session.Options{Hooks: hooks})
		require.NoError(t, err)
		h, err := mutex.New(s, "orders").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := settleOrders(ctx, mutex.New(s, "orders"))
			done <- err
		}()
		synctest.Wait()

		_, stack, _ := strings.Cut(page(t, table, ""), "waiting at\n")
		assert.True(t, strings.HasPrefix(stack, "\tgithub.com/fairlock/fairlock/recipes/mutex.(*Mutex).Lock\n"), stack)

		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, h.Unlock())
		require.NoError(t, s.Close())
	})
}

func TestTheHandlerRefusesWhatItDoesNotKnow(t *testing.T) {
	table := waits.New()
	status := func(method, query string) int {
		w := httptest.NewRecorder()
		table.ServeHTTP(w, httptest.NewRequest(method, "/"+query, http.NoBody))
		return w.Code
	}
	assert.Equal(t, http.StatusOK, status(http.MethodHead, ""))
	assert.Equal(t, http.StatusMethodNotAllowed, status(http.MethodPost, ""))
	assert.Equal(t, http.StatusMethodNotAllowed, status(http.MethodDelete, ""))
	for _, n := range []string{"0", "-1", "10001", "ten", "1e3"} {
		assert.Equal(t, http.StatusBadRequest, status(http.MethodGet, "?n="+n), n)
	}
}

// slow is a client that stops reading.
type slow struct{ http.ResponseWriter }

func (slow) Write([]byte) (int, error) { return 0, errors.New("the client is gone") }

func TestAClientThatIsGoneStopsNothing(t *testing.T) {
	table := waits.New()
	hooks := table.Hooks()
	ctx := hooks.Started(t.Context(), session.Event{Name: "orders", Kind: "mutex", At: time.Now()})
	for _, query := range []string{"", "?debug=0"} {
		table.ServeHTTP(slow{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/"+query, http.NoBody))
	}
	hooks.Ended(ctx, session.Event{Outcome: session.OutcomeGaveUp})

	assert.Contains(t, page(t, table, ""), "0 waiting")
}

package fencetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
)

const (
	// perResource is how many rounds go on one resource before its value is checked.
	perResource = 50

	// soon is after how long a silent worker gets company: a stopped one may be in the store's
	// own lock, so one is woken.
	soon = 100 * time.Millisecond

	// moment is within how long after the begin of a step a worker is stopped or killed.
	moment = 2 * time.Millisecond

	// seedEnv repeats the faults of a load.
	seedEnv = "FAIRLOCK_FENCETEST_SEED"
)

// Load is what Run runs.
type Load struct {
	Open    Opener
	Address string
	Kind    Kind
	Rounds  int

	// UntilLost ends the load at the first resource that has lost an update.
	UntilLost bool
}

// Result is what came of a load.
type Result struct {
	Acknowledged, Refused, Stops, Kills, Repeats int
	// Lost counts the acknowledged updates that are in no value.
	Lost int
	// Failed has what workers reported of an access that was neither done nor refused.
	Failed []string
}

// String returns the counts.
func (r Result) String() string {
	return fmt.Sprintf("%d updates acknowledged, %d rounds refused, %d stops, %d kills, %d repeated writes: %d lost, %d failed",
		r.Acknowledged, r.Refused, r.Stops, r.Kills, r.Repeats, r.Lost, len(r.Failed))
}

// Run runs a load, and returns what came of it. It logs the seed of its faults.
func Run(t testing.TB, l Load) Result {
	t.Helper()
	seed := rand.Uint64()
	text, repeats := os.LookupEnv(seedEnv)
	if repeats {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("the faults of %s=%d", seedEnv, seed)
	d := &load{t: t, Load: l, rand: rand.New(rand.NewPCG(seed, 0))}
	defer d.end()
	plain, err := l.Open.open(t.Context(), l.Address, Plain)
	require.NoError(t, err)
	token := session.Token(0)
	for d.done < l.Rounds && (!l.UntilLost || d.result.Lost == 0) {
		resource := fmt.Sprintf("load-%s-%d", l.Kind, d.done)
		for range min(perResource, l.Rounds-d.done) {
			token++
			d.round(resource, token)
			d.done++
		}
		d.wakeAll()
		value, err := plain.Read(t.Context(), resource, token+1)
		require.NoError(t, err)
		d.result.Acknowledged += len(d.acknowledged)
		d.result.Lost += missing(value, d.acknowledged)
		d.acknowledged = nil
	}
	t.Logf("%d rounds of kind %s: %v", d.done, l.Kind, d.result)
	return d.result
}

// load is a running Load. Its own goroutine grants; each worker that was woken has one more,
// until its round ends.
type load struct {
	Load
	t     testing.TB
	rand  *rand.Rand // of the goroutine that grants
	done  int
	woken sync.WaitGroup

	mu           sync.Mutex
	idle         []*worker
	stopped      []*worker
	result       Result
	acknowledged []session.Token // of this resource
}

// round is one hold: its worker ends it, or is stopped or killed in it.
func (d *load) round(resource string, t session.Token) {
	w := d.worker()
	w.token = t
	attempts := 1
	if d.rand.IntN(4) == 0 {
		attempts = 2
		d.result.Repeats++
	}
	line := fmt.Sprintf("%s %d %d", resource, t, attempts)
	for more := true; more; line = "go" {
		if d.rand.IntN(2) == 0 {
			d.wake(d.rand.IntN(2) == 0)
		}
		more = d.step(w, line)
	}
}

// step lets a worker do its next step, and reports whether its round goes on here.
func (d *load) step(w *worker, line string) bool {
	switch d.rand.IntN(16) {
	case 0, 1: // between two steps
		require.NoError(d.t, w.Pause())
		w.send(line)
		d.stop(w)
		return false
	case 2: // in the step
		w.send(line)
		d.wait()
		require.NoError(d.t, w.Pause())
		d.stop(w)
		return false
	case 3:
		w.send(line)
		d.wait()
		w.Halt()
		d.mu.Lock()
		d.result.Kills++
		d.mu.Unlock()
		for text := range w.lines {
			d.ended(w, text)
		}
		return false
	}
	w.send(line)
	if d.ended(w, d.next(w)) {
		d.free(w)
		return false
	}
	return true
}

// wait is a part of a moment.
func (d *load) wait() { time.Sleep(time.Duration(d.rand.Int64N(int64(moment)))) }

func (d *load) stop(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.result.Stops++
	d.stopped = append(d.stopped, w)
}

// next returns the next line of a worker. Those that are stopped may be in its way.
func (d *load) next(w *worker) string {
	for end := time.Now().Add(hang.Guard); time.Now().Before(end); {
		select {
		case text, ok := <-w.lines:
			if !ok {
				<-w.Done() // its output ends before
				return failed + " " + w.Err().Error()
			}
			return text
		case <-time.After(soon):
		}
		d.wake(false)
	}
	return failed + " the worker hangs"
}

// ended notes what a worker has printed, and reports whether that ends its round.
func (d *load) ended(w *worker, text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case text == hasRead, text == again:
		return false
	case text == done:
		d.acknowledged = append(d.acknowledged, w.token)
	case text == stale:
		d.result.Refused++
	default:
		d.result.Failed = append(d.result.Failed, strings.TrimPrefix(text, failed+" "))
	}
	return true
}

// wake lets one of the stopped workers go on to the end of its round. If whole is set, wake
// waits for that end.
func (d *load) wake(whole bool) (woken bool) {
	d.mu.Lock()
	if len(d.stopped) == 0 {
		d.mu.Unlock()
		return false
	}
	w := d.stopped[0]
	d.stopped = d.stopped[1:]
	d.mu.Unlock()
	_ = w.Resume() // if it has died, its output has ended
	ended := make(chan struct{})
	d.woken.Go(func() {
		defer close(ended)
		for !d.ended(w, d.next(w)) {
			w.send("go")
		}
		d.free(w)
	})
	if whole {
		<-ended
	}
	return true
}

// wakeAll ends the rounds of all workers.
func (d *load) wakeAll() {
	for d.wake(false) {
	}
	d.woken.Wait()
}

func (d *load) worker() *worker {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.idle)
	if n > 0 {
		w := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return w
	}
	w, err := startWorker(d.Address, d.Kind)
	require.NoError(d.t, err)
	return w
}

// free keeps a worker for later rounds, unless it has ended.
func (d *load) free(w *worker) {
	if w.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, w)
}

func (d *load) end() {
	d.wakeAll()
	for _, w := range d.idle {
		w.Halt()
	}
}

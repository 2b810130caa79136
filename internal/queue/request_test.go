package queue_test

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// request starts a request of the session that is its first letter.
func (w *world) request(name string, words []string) {
	s := w.session(name[:1])
	ctx, cancel := context.WithCancel(w.t.Context())
	r := &req{name: name, cancel: cancel}
	w.mu.Lock()
	w.reqs[name] = r
	w.mu.Unlock()
	want := w.wanted(words)
	want.Name, want.Kind = "n", "trace "+name
	r.reads = want.Mode != driver.Exclusive
	go func() {
		h, err := queue.Acquire(ctx, s, want)
		w.mu.Lock()
		r.hold, r.over = h, true
		w.mu.Unlock()
		if err != nil {
			w.tell("%s %s", name, short(err))
			return
		}
		if want.Ledger {
			how := map[driver.Past]string{driver.PastUnknown: "unknown", driver.PastClean: "clean", driver.PastDied: "died"}
			w.tell("%s granted, the hold before it: %s", name, how[queue.Core().Inner(h).Previous()])
		} else {
			w.tell("%s granted", name)
		}
		context.AfterFunc(h.Context(), func() {
			if err := context.Cause(h.Context()); !errors.Is(err, session.ErrReleased) {
				w.tell("%s %s", name, short(err))
			}
		})
	}()
}

// watchful is a rule that waits for everybody at once. So several seats wait for
// one entry, which is the nearest of one of them only.
func watchful(a queue.Ahead, _ driver.Entry) queue.Verdict {
	if len(a.Entries) == 0 {
		return queue.Verdict{Hold: a.Complete, More: !a.Complete}
	}
	var v queue.Verdict
	for _, e := range a.Entries {
		v.Wait = append(v.Wait, e.Ref)
	}
	return v
}

// wanted is what the requests of a trace ask for.
func (w *world) wanted(words []string) queue.Request {
	switch how := words[0]; how {
	case "lockall":
		return queue.Request{Rule: queue.Rule{Decide: watchful}}
	case "rlock", "tryr":
		return queue.Request{Rule: queue.ReadWrite(), Kin: driver.KinReadWrite, Mode: driver.Shared, Try: how == "tryr"}
	case "wlock", "tryw":
		return queue.Request{Rule: queue.ReadWrite(), Kin: driver.KinReadWrite, Try: how == "tryw"}
	case "acquire":
		weight := int64(1)
		if len(words) > 2 {
			weight = w.number(words[2])
		}
		return queue.Request{Rule: queue.Semaphore(), Mode: driver.Weighted, Weight: weight, Limit: weight, Follow: true}
	case "robust":
		want := queue.Request{Rule: queue.Mutex(), Ledger: true}
		if len(words) > 2 {
			want.Delay = w.duration(words[2])
		}
		return want
	default:
		return queue.Request{Rule: queue.Mutex(), Try: how == "try"}
	}
}

// downgrade makes a reader of a writer, or gives up after a while. From the call
// on it counts as a reader: others may have been let in.
func (w *world) downgrade(name string) {
	r := w.named(name)
	if r.hold == nil {
		w.tell("%s holds nothing", name)
		return
	}
	if r.hold.Mode() == session.Exclusive {
		w.mu.Lock()
		r.reads = true
		w.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := queue.Core().Inner(r.hold).Downgrade(ctx); err != nil {
		w.tell("%s downgrade: %s", name, short(err))
	}
}

// limit has a session give the line another limit.
func (w *world) limit(name, limit string) {
	require.NoError(w.t, queue.SetLimit(w.t.Context(), w.session(name), "n", w.number(limit)))
}

func (w *world) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(w.t, err)
	return n
}

// patience is how long a downgrade waits for an answer.
const patience = 100 * time.Millisecond

func (w *world) unlock(name string) {
	r := w.named(name)
	if r.hold == nil {
		w.tell("%s holds nothing", name)
		return
	}
	if err := r.hold.Unlock(); err != nil {
		w.tell("%s unlock: %s", name, short(err))
	}
	r.hold = nil
}

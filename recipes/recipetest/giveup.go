package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// givingUp are the cases of requests that have never held, and must leave the ledger of a
// lock as it was.
func givingUp() []testCase {
	return slices.Concat(
		[]testCase{
			{"WaitersThatLeaveChangeNoLedger", robustWaiters},
			{"RequestThatGivesUpAtAnyStepChangesNoLedger", func(w *Fixture) { robustEveryStep(w, true, false) }},
			{"RequestWhoseSessionIsClosedAtAnyStepChangesNoLedger", func(w *Fixture) { robustEveryStep(w, false, true) }},
			{"RequestThatGivesUpAtAnyStepBeforeCloseChangesNoLedger", func(w *Fixture) { robustEveryStep(w, true, true) }},
		},
		over("RequestThatGivesUpWith%vChangesNoLedger", fault.Retryable(), robustGivesUp),
	)
}

// robustWaiters has waiters that are cancelled, die, or are deleted, behind a holder that
// then releases, or dies.
func robustWaiters(w *Fixture) {
	w.attend()
	for _, died := range []bool{false, true} {
		for _, d := range append(deaths(), death{name: "cancelled"}) {
			a, p := w.Client("holder"), d.victim(w, "waits")
			h := a.robust()
			ctx, cancel := context.WithCancel(w.soon())
			r := p.queueRobust(ctx)
			switch d.name {
			case "cancelled":
			case "closed":
				p.closes(w.t)
			case "cut off":
				p.net.Cut(fault.Both)
			case "deleted":
				w.svc.Delete(w.t, a.nth(1).Ref)
				p.joins()
			default:
				w.svc.Expire(w.t, a.nth(1).Session)
				p.joins()
			}
			cancel()
			r.returned()
			require.Error(w.t, r.Err)
			w.eventually(1, d.name)
			want := w.ends(h, died)
			w.eventually(0, "gone")
			w.past(want, "a waiter was "+d.name)
			p.net.Heal()
		}
	}
}

// ends has a hold die, or releases it, and returns what the next holder must learn.
func (w *Fixture) ends(h *session.Hold, died bool) engine.Past {
	w.t.Helper()
	if died {
		w.svc.Expire(w.t, h.SessionID())
		return engine.PastDied
	}
	w.unlock(h)
	return engine.PastClean
}

// robustEveryStep has a Lock end at the moment of its first request to the service, of its
// second, and so on until it is granted: in an empty queue and in one that becomes empty,
// after a death and after none. The Lock gives up if it cancels. If it closes, its session is
// closed: when the Lock has given up, or else while the answer to that request is under way.
func robustEveryStep(w *Fixture, cancels, closes bool) {
	slow := w.short / 500
	for _, died := range []bool{false, true} {
		for _, waits := range []bool{false, true} {
			for step := 1; ; step++ {
				a := w.Client("before")
				p := w.open("ends", w.h.TTL, func(o *session.Options) { o.Margin = o.TTL / 3 }) // Close has that long
				h := a.robust()
				var want engine.Past
				ctx, cancel := context.WithCancel(w.soon())
				var r *Request
				if waits {
					r = p.queueRobust(ctx)
				} else {
					want = w.ends(h, died)
					w.eventually(0, "gone")
				}
				closed := make(chan struct{})
				shut := sync.OnceFunc(func() {
					go func() {
						defer close(closed)
						p.closes(w.t)
					}()
				})
				end := cancel
				if !cancels {
					end = shut
				}
				if closes {
					p.net.Delay(slow)
					p.onRequest(step, func() { time.AfterFunc(slow/2, end) })
				} else {
					p.onRequest(step, end)
				}
				if waits {
					want = w.ends(h, died)
				} else {
					r = p.startFor(ctx, wantRobust(mutex.Options{}))
				}
				r.returned()
				cancel()
				p.net.OnRequest(nil)
				granted := r.Err == nil
				if granted {
					assert.Equal(w.t, want, Previous(r.Hold))
					want = engine.PastClean
					if closes {
						err := r.Hold.Unlock()
						if errors.Is(err, session.ErrLost) {
							want = engine.PastDied
						}
					} else {
						w.unlock(r.Hold)
					}
				}
				if closes {
					shut()
					within(w.t, w.timeout(), closed, "the end of Close")
				}
				w.eventually(0, "it has left")
				w.past(want, fmt.Sprintf("died %t, waits %t, ended at request %d, granted %t", died, waits, step, granted))
				if granted && step > 1 {
					break
				}
				require.Less(w.t, step, 20)
			}
		}
	}
}

// onRequest calls f at the start of the nth request from now.
func (p *Client) onRequest(n int, f func()) {
	left := make(chan struct{}, n)
	for range n - 1 {
		left <- struct{}{}
	}
	p.net.OnRequest(func() {
		select {
		case <-left:
		default:
			f()
		}
	})
}

// robustGivesUp has a request give up while it is not known whether its name was
// written.
func robustGivesUp(w *Fixture, f fault.Kind) {
	for _, died := range []bool{false, true} {
		for _, op := range []fault.Op{fault.Join, fault.Update, fault.Leave} {
			a, p := w.Client("before"), w.Client("gives up")
			h := a.robust()
			ctx, cancel := context.WithCancel(w.soon())
			var r *Request
			if op == fault.Update {
				r = p.queueRobust(ctx)
			}
			p.net.Inject(op, f)
			if op == fault.Update {
				p.onRequest(1, func() { time.AfterFunc(w.short/1000, cancel) })
			}
			want := w.ends(h, died)
			if r == nil {
				w.eventually(0, "gone")
				time.AfterFunc(w.short/1000, cancel)
				r = p.startFor(ctx, wantRobust(mutex.Options{}))
			}
			r.returned()
			cancel()
			p.net.OnRequest(nil)
			if r.Err == nil {
				UnlockInTrouble(w.t, r.Hold)
				want = engine.PastClean
			}
			w.eventually(0, "it has left")
			w.past(want, fmt.Sprintf("died %t, fault at %v, it got %v", died, op, r.Err))
			w.past(engine.PastClean, "released")
		}
	}
}

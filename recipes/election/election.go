// Package election provides fair, fenced leader election over one name.
//
//	e := election.New(s, "scheduler")
//	err := e.Run(ctx, "10.0.0.7:8080", func(ctx context.Context, h *session.Hold) error {
//		return schedule(ctx, h.Token()) // ctx is cancelled if the leadership is lost
//	})
//
// Candidates lead in the order in which the service received their campaigns. The
// context of a leader that is cut off is cancelled before the next one starts.
//
// An election does not keep a stopped process from writing when it resumes: for that,
// the resource must check the token.
package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// kind is the recipe's name in errors and entries.
const kind = "election"

// Election is a name with at most one leader. An Election is only a name and a session:
// it is cheap, has no state, and is safe for concurrent use.
//
// The service stores the value of each candidate as it is, and every client can read
// it. So on etcd, in LayoutConcurrency, candidates share the queue with
// concurrency.Election and "etcdctl elect", which read the value too; on ZooKeeper they
// share it with Curator's LeaderSelector or LeaderLatch, see Options.Latch.
type Election struct {
	s    *session.Session
	name string
	opts Options
}

// Options are what NewWith takes. The zero value is what New uses.
type Options struct {
	// Latch names the entries on ZooKeeper as Curator's LeaderLatch does, to share the
	// queue with it; without Latch they are named as its LeaderSelector does. Other
	// services ignore it. With Latch on ZooKeeper a value cannot be changed: Proclaim
	// returns session.ErrRefused, because a LeaderLatch that waits behind an entry
	// misses the deletion of that entry after a change.
	Latch bool

	// Generation is the number of the roll-out that this process belongs to: equal for all its
	// replicas, and higher for each later one, a rollback included. So it is not the number of a
	// build, and not a time. 0: this candidate takes no part; below 0 is session.ErrInvalidOptions.
	//
	// With it, a roll-out moves the leadership once, if at most 16 candidates campaign, all have a
	// number, and a newer one waits before the leader stops. A candidate that would lead next, sees
	// a newer one behind, and has an older leader ahead steps behind it: it joins the queue again
	// at the end, and then leaves its old place. And Run hands over, see Settle. A program
	// campaigns when it is ready to lead, because nothing else shows that it is.
	//
	// What no number can do: if the old processes stop before a new one waits, there are two changes,
	// or more. Candidates without a number are neither older nor newer: no other steps for them, and
	// nothing is handed over while one is next. So the roll-out that introduces the numbers gains
	// nothing. If the number goes back, the new candidates count as older.
	Generation int64

	// Settle is how long a newer candidate must have been the next one before Run hands over to it,
	// by the clock of the leader. 0: ten seconds, or a quarter more than the TTL of that candidate
	// if that is longer, so that one which ends soon after its start never leads; below 0: Run hands
	// over only when its ctx ends. Run hands over once to each generation: if a newer version fails
	// and the leadership comes back, it stays until ctx ends.
	Settle time.Duration

	// Next is called when this candidate leads next, so that it can warm up. ctx ends with the
	// leadership of the other, or when this candidate is no longer the next one; Next can be
	// called again then. Campaign waits until it has returned, so it returns at once when ctx ends.
	Next func(ctx context.Context)
}

// ErrHandOver is the cause of the end of fn's context when Run hands the leadership over.
var ErrHandOver = errors.New("a candidate of a newer generation is ready to lead")

// New returns the election of that name. It sends nothing and cannot fail; the first
// call returns the error for a bad name or session.
func New(s *session.Session, name string) *Election { return NewWith(s, name, Options{}) }

// NewWith is New with options.
func NewWith(s *session.Session, name string, o Options) *Election {
	return &Election{s: s, name: name, opts: o}
}

// Name returns the name of the election.
func (e *Election) Name() string { return e.name }

// Campaign blocks until the caller leads, and returns a hold. The caller leads until
// Unlock, which resigns, or until the hold is lost. value is what other clients read,
// an address for example; it has at most 1 MiB (a little less on ZooKeeper). ctx bounds
// only the wait, and ends it as in mutex.Lock.
//
// With Options.Generation or Next, Campaign makes a request, as Hooks report it, for each place in
// the queue that it takes.
func (e *Election) Campaign(ctx context.Context, value string) (h *session.Hold, err error) {
	if e.opts.Generation > 0 || e.opts.Next != nil {
		h, err = newCandidate(ctx, e, value).campaign() //nolint:contextcheck // the candidate has it
	} else {
		h, err = e.acquire(ctx, value, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("election: campaign for %q: %w", e.name, err)
	}
	return h, nil
}

// acquire is one request for the leadership.
func (e *Election) acquire(ctx context.Context, value string, placed func(engine.Place)) (*session.Hold, error) {
	family := driver.FamilyMutex
	if e.opts.Latch {
		family = driver.FamilyLatch
	}
	err := e.check(value)
	if e.opts.Generation < 0 {
		err = fmt.Errorf("%w: generation %d is below 0", session.ErrInvalidOptions, e.opts.Generation)
	}
	return session.Engine(door.Key{}).Acquire(ctx, e.s, engine.Request{ //nolint:wrapcheck // Campaign does
		Name: e.name, Kind: kind, Mode: driver.Exclusive, Rule: rule.Mutex(), Family: family, Value: append([]byte{}, value...),
		Generation: e.opts.Generation, Placed: placed, Err: err,
	})
}

// inner is what the election does at the service.
func (e *Election) inner() *engine.Engine { return session.Engine(door.Key{}).Of(e.s) }

// check returns what is wrong with a value, before anything is sent.
func (e *Election) check(value string) error {
	// Info is zero for a Session that was never opened: there the request fails.
	i := e.inner().Info()
	if i.MaxData > 0 && len(value) > i.MaxData {
		return fmt.Errorf("%w: a value of %d bytes, more than the %d that %s takes", session.ErrInvalidOptions, len(value), i.MaxData, i.Service)
	}
	return nil
}

// Proclaim replaces the value of the leader. It returns session.ErrNotLeader if h is
// not a hold of this election and Session, session.ErrLost or ErrUnlocked if the hold
// is over or ends during the call, and session.ErrInvalidOptions if the value is too
// long. After any other error the outcome is unknown; call Proclaim again.
func (e *Election) Proclaim(ctx context.Context, h *session.Hold, value string) error {
	err := e.check(value)
	o := session.Engine(door.Key{}).Hold(h)
	switch {
	case err != nil:
	case !o.Of(e.inner(), kind, e.name):
		err = session.ErrNotLeader
	default:
		err = o.Write(ctx, append([]byte{}, value...))
	}
	if err != nil {
		return fmt.Errorf("election: proclaim for %q: %w", e.name, err)
	}
	return nil
}

// IsLeader reports whether the caller's Session leads now, that is, whether it has a
// live hold of this election. It sends nothing and reads the clock, so it is right even
// after the process was stopped. Use it for metrics, and for requests that only the
// leader serves. An action that cannot be undone needs the token too, because the
// leadership may be lost right after the call.
func (e *Election) IsLeader() bool { return e.inner().Holds(kind, e.name) }

// Leader is the leader of an election as the service knows it.
type Leader struct {
	Value string        // what the leader has proclaimed
	Token session.Token // 0 if there is no leader, or one whose entry the login may not read
	Entry session.Entry // its entry: host, pid, label and times; mostly zero for other programs
}

// Vacant reports whether there is no leader.
func (l Leader) Vacant() bool { return l.Token == 0 && l.Entry.Key == "" }

func leader(e driver.Entry) Leader {
	if e.Zero() {
		return Leader{}
	}
	l := Leader{Token: session.Token(e.Token), Entry: session.Engine(door.Key{}).Entry(1, true, e)}
	if e.Valued || e.Foreign {
		l.Value = string(e.Data)
	}
	return l
}

// Leader returns the current leader, or session.ErrNoLeader. That leader may already
// have lost the leadership without having noticed, or its entry may not have been
// deleted yet.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if err := e.inner().CheckName(e.name); err != nil {
		return Leader{}, fmt.Errorf("election: leader of %q: %w", e.name, err)
	}
	for {
		v, err := e.inner().Read(ctx, driver.ReadRequest{Queue: e.name, Nearest: 1, Detail: true})
		switch {
		case err != nil:
			return Leader{}, fmt.Errorf("election: leader of %q: %w", e.name, err)
		case len(v.Entries) == 0:
			return Leader{}, fmt.Errorf("election: leader of %q: %w", e.name, session.ErrNoLeader)
		case v.Entries[0].Token != 0, v.Entries[0].Unreadable: // or it was deleted during the read
			return leader(v.Entries[0]), nil
		}
	}
}

// Observe yields the current leader, and then each change of the leader or its value. A
// vacancy is a change too (Leader.Vacant). Changes in quick succession may be yielded
// as one; the last one is always yielded. Observe survives lost connections and
// sessions. It ends when the loop ends, when ctx ends, or with one error where waiting
// cannot help.
//
//	for l, err := range e.Observe(ctx) {
//		...
//	}
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		for first, err := range e.inner().Head(ctx, e.name) {
			if err != nil {
				yield(Leader{}, fmt.Errorf("election: observe %q: %w", e.name, err))
				return
			}
			if !yield(leader(first), nil) {
				return
			}
		}
	}
}

// The first and the longest backoff of Run. Up to half of it is left out at random, so
// that candidates do not all campaign at the same moment.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// Run campaigns, calls fn as the leader, waits until fn has returned, and resigns.
// It returns when ctx has ended or fn has failed; otherwise it campaigns again. The
// context of fn ends with ctx and when the leadership is lost, and fn should return
// at once then. After the end of ctx the next leader starts when fn has returned,
// however long that takes. After a loss it may start as soon as the margin of the
// session has passed. Run never calls fn again before fn has returned. Run resigns
// also if fn panics.
//
//   - If fn returns an error as the leader, Run resigns and returns that error,
//     wrapped.
//   - If fn returns nil, Run campaigns again.
//   - If the leadership was lost, Run campaigns again, whatever fn returned. An error
//     that is session.ErrLost counts as a loss. Any other error is logged as a
//     warning, unless it is only the end of fn's context.
//   - If Run hands over to a newer candidate (Options.Generation), the cause of the context of fn
//     is ErrHandOver. Run waits for fn, resigns, and campaigns again without a pause. An error that
//     is ErrHandOver is no failure.
//   - If ctx has ended, Run returns ctx's error, its cause, and the error of fn,
//     unless that is only the end of fn's context.
//
// Run also returns the error of a campaign where waiting cannot help.
//
// If fn has run for less than ten seconds, Run backs off before it campaigns again, and
// other candidates can lead meanwhile: at first for up to a tenth of a second, then
// twice as long each time, up to ten seconds. To continue after a failure, fn logs
// the error and returns nil:
//
//	err := e.Run(ctx, addr, func(ctx context.Context, h *session.Hold) error {
//		if err := schedule(ctx, h.Token()); err != nil && ctx.Err() == nil {
//			log.Print(err)
//		}
//		return nil // Run backs off, longer each time, and campaigns again
//	})
func (e *Election) Run(ctx context.Context, value string, fn func(ctx context.Context, h *session.Hold) error) error {
	clock := e.inner().Clock()
	backoff := driver.Backoff{Least: minBackoff, Most: maxBackoff, Spread: true}
	given := handedTo{}
	for {
		h, err := e.Campaign(ctx, value)
		if err != nil {
			if ctx.Err() != nil {
				err = e.ended(ctx, nil)
			}
			return err
		}
		began := clock.Now()
		lost, handed, err := e.work(ctx, h, given, fn)
		switch {
		case ctx.Err() != nil:
			return e.ended(ctx, err)
		case err != nil && !lost:
			return fmt.Errorf("election: run for %q: %w", e.name, err)
		case err != nil:
			e.inner().Logger().Warn("fairlock: the leader's work ended", "name", e.name, "token", int64(h.Token()), "err", err)
		}
		if handed || clock.Now().Sub(began) >= maxBackoff {
			backoff.Reset()
			continue
		}
		backoff.Sleep(ctx, clock)
	}
}

// work calls fn as the leader and resigns. It reports whether the leadership was lost, or handed over,
// and returns the error of fn, nil if that is only the end of fn's context.
func (e *Election) work(ctx context.Context, h *session.Hold, given handedTo, fn recipe.Work) (lost, handed bool, err error) {
	leading, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	if e.opts.Generation > 0 && e.opts.Settle >= 0 {
		watching.Go(func() { e.handOver(leading, h, given, end) })
	}
	defer func() { // also after a panic in fn
		end(nil)
		watching.Wait()
	}()
	// Do joins a loss to what fn returns, also one that only Unlock has found.
	done := recipe.Do(leading, func(context.Context) (*session.Hold, error) { return h, nil }, func(ctx context.Context, h *session.Hold) error {
		fnErr := fn(ctx, h)
		if ctx.Err() == nil || !errors.Is(fnErr, context.Canceled) && !errors.Is(fnErr, context.Cause(ctx)) {
			err = fnErr
		}
		return fnErr
	})
	return errors.Is(done, session.ErrLost), errors.Is(context.Cause(leading), ErrHandOver), err
}

// ended returns the error of Run when its context has ended. It includes the context's
// cause and the error of the work, if there are any.
func (e *Election) ended(ctx context.Context, work error) error {
	err := fmt.Errorf("election: run for %q: %w", e.name, ctx.Err())
	c := context.Cause(ctx)
	if !errors.Is(c, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, c)
	}
	if work != nil {
		err = fmt.Errorf("%w: %w", err, work)
	}
	return err
}

// Queue returns the candidates in order, the leader first, other programs' ones included.
func (e *Election) Queue(ctx context.Context) ([]session.Entry, error) {
	return recipe.List(ctx, e.s, kind, e.name)
}

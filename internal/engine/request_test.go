package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// request starts a request of the session that is its first letter.
func (f *fixture) request(name string, words []string) {
	s := f.session(name[:1])
	ctx, cancel := context.WithCancel(f.t.Context())
	r := &request{name: name, cancel: cancel}
	f.mu.Lock()
	f.requests[name] = r
	f.mu.Unlock()
	want := f.wanted(words)
	want.Name, want.Kind = "n", "trace "+name
	r.reads, r.weight = want.Mode != driver.Exclusive, want.Weight
	go func() {
		h, err := inside().Acquire(ctx, s, want)
		f.mu.Lock()
		r.hold, r.over = h, true
		f.mu.Unlock()
		if err != nil {
			f.report("%s %s", name, short(err))
			return
		}
		if want.Ledger {
			how := map[engine.Past]string{engine.PastUnknown: "unknown", engine.PastClean: "clean", engine.PastDied: "died"}
			f.report("%s granted, the hold before it: %s", name, how[inside().Hold(h).Past()])
		} else {
			f.report("%s granted", name)
		}
		context.AfterFunc(h.Context(), func() {
			if err := context.Cause(h.Context()); !errors.Is(err, session.ErrReleased) {
				f.report("%s %s", name, short(err))
			}
		})
	}()
}

// watchful is a rule that waits for all entries at once. So several waiters wait for one
// entry that is the nearest of one of them only.
func watchful(a rule.Ahead, _ *driver.Entry) rule.Verdict {
	switch {
	case len(a.Entries) > 0:
		return rule.Verdict{Wait: a.Entries, Next: a.Complete}
	case a.Complete:
		return rule.Verdict{Hold: true}
	}
	return rule.Verdict{More: 1}
}

// wanted is what the requests of a trace ask for.
func (f *fixture) wanted(words []string) engine.Request {
	switch how := words[0]; how {
	case "lockall":
		return engine.Request{Rule: rule.Rule{Decide: watchful}}
	case "rlock", "tryr":
		return engine.Request{Rule: rule.ReadWrite(), Family: driver.FamilyReadWrite, Mode: driver.Shared, Try: how == "tryr"}
	case "wlock", "tryw":
		return engine.Request{Rule: rule.ReadWrite(), Family: driver.FamilyReadWrite, Try: how == "tryw"}
	case "acquire":
		weight := int64(1)
		if len(words) > 2 {
			weight = f.number(words[2])
		}
		return engine.Request{Rule: rule.Semaphore(), Mode: driver.Weighted, Weight: weight, Limit: weight, Follow: true}
	case "robust":
		want := engine.Request{Rule: rule.Mutex(), Ledger: true}
		if len(words) > 2 {
			want.Delay = f.duration(words[2])
		}
		return want
	default:
		return engine.Request{Rule: rule.Mutex(), Try: how == "try"}
	}
}

// downgrade makes a reader of a writer, or gives up after a while. From the call on it
// counts as a reader: others may have been let in.
func (f *fixture) downgrade(name string) {
	r := f.named(name)
	if r.hold == nil {
		f.report("%s holds nothing", name)
		return
	}
	if r.hold.Mode() == session.Exclusive {
		f.mu.Lock()
		r.reads = true
		f.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), downgradeTimeout)
	defer cancel()
	if err := inside().Hold(r.hold).Downgrade(ctx); err != nil {
		f.report("%s downgrade: %s", name, short(err))
	}
}

// downgradeTimeout is how long a downgrade waits for an answer.
const downgradeTimeout = 100 * time.Millisecond

// limit has a session give the queue another limit.
func (f *fixture) limit(name, limit string) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
	defer cancel()
	if err := inside().Of(f.session(name)).SetLimit(ctx, "n", f.number(limit)); err != nil {
		f.report("%s limit: %s", name, short(err))
	}
}

func (f *fixture) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(f.t, err)
	return n
}

func (f *fixture) unlock(name string) {
	r := f.named(name)
	if r.hold == nil {
		f.report("%s holds nothing", name)
		return
	}
	if err := r.hold.Unlock(); err != nil {
		f.report("%s unlock: %s", name, short(err))
	}
	r.hold = nil
}

// show returns what happened, and the queue.
func (f *fixture) show() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := f.news
	f.news = nil
	slices.Sort(news)
	var line []string
	holders, writers, permits, shared := 0, 0, int64(0), map[string]bool{}
	for _, e := range mem().Entries(f.st, "n") {
		name := e.Key
		for _, r := range f.requests {
			if r.token == e.Token {
				name = r.name
			}
		}
		line = append(line, name)
		shared[name] = e.Shares()
	}
	for _, r := range f.requests {
		if r.hold == nil || r.hold.Remaining() == 0 || f.evicted[r.token] {
			continue
		}
		holders++
		permits += r.weight
		if !r.reads {
			writers++
		}
		if i := slices.Index(line, r.name); i >= 0 {
			line[i] += "*"
		} else {
			line = append(line, "!"+r.name+"*") // holds, and has no entry
		}
	}
	f.most = max(f.most, f.st.Limit("n"))
	if holders > 1 && writers > 0 || permits > f.most {
		news = append(news, "TWO HOLD")
	}
	for i, name := range line {
		if shared[strings.TrimSuffix(name, "*")] {
			line[i] = "~" + name
		}
	}
	if len(line) == 0 {
		line = []string{"(empty)"}
	}
	return append(news, "queue: "+strings.Join(line, " "))
}

// short names an error by what callers branch on.
func short(err error) string {
	if lost, ok := errors.AsType[*session.LostError](err); ok {
		return "lost: " + lost.Reason.Error()
	}
	for _, e := range []error{
		session.ErrNotAcquired, session.ErrForeignKey, session.ErrClosed,
		session.ErrReleasePending, session.ErrNotWriter, context.DeadlineExceeded, session.ErrUnlocked, session.ErrLost,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return err.Error()
}

// end heals everything, lets all requests hold in turn, and returns what is wrong if one is
// forgotten or something is left while the sessions live.
func (f *fixture) end() (wrong string) {
	for name := range f.clients {
		f.network("heal", name)
	}
	f.st.Delete("n", "x")
	wedged, since := int64(0), time.Now()
	for start := time.Now(); ; time.Sleep(time.Second) {
		synctest.Wait()
		if f.unlockAll() {
			continue
		}
		entries, pending := mem().Entries(f.st, "n"), f.pending()
		if len(entries) == 0 && len(pending) == 0 {
			break
		}
		first := int64(-1)
		if len(entries) > 0 {
			first = entries[0].Token
		}
		if first != wedged {
			wedged, since = first, time.Now()
		}
		// The first must hold soon; what a lost session left must expire.
		waits := time.Since(since)
		if slices.Contains(pending, first) && waits > 4*time.Second || waits > 20*time.Second || time.Since(start) > 10*time.Minute {
			wrong = fmt.Sprintf("NOTHING MOVES at %v: queue %v, waiting %v\n", time.Now(), entries, pending)
			break
		}
	}
	for _, r := range f.requests {
		r.cancel()
	}
	for _, s := range f.sessions {
		assert.NoError(f.t, s.Close())
	}
	synctest.Wait()
	return wrong
}

// unlockAll unlocks what is held, and reports whether there was something.
func (f *fixture) unlockAll() bool {
	f.mu.Lock()
	var holds []*session.Hold
	for _, r := range f.requests {
		if r.hold != nil {
			holds = append(holds, r.hold)
			r.hold = nil
		}
	}
	f.mu.Unlock()
	for _, h := range holds {
		_ = h.Unlock() // what it returns does not matter here
	}
	return len(holds) > 0
}

// pending returns the tokens of those that still wait; -1 for one that has no entry.
func (f *fixture) pending() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var tokens []int64
	for _, r := range f.requests {
		if !r.over {
			tokens = append(tokens, r.token)
		}
	}
	return tokens
}

package drivertest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// looked plants a defect into the answer of a look.
func looked(b *badBackend, change func(req driver.LookRequest, v *driver.View)) {
	b.look = func(ctx context.Context, s driver.Session, req driver.LookRequest) (driver.View, error) {
		v, err := s.Look(ctx, req)
		if err == nil {
			change(req, &v)
		}
		return v, err
	}
}

// lookOld answers every look with the first answer, like a member that lags.
func lookOld(b *badBackend) {
	first := make(map[string]driver.View)
	looked(b, func(req driver.LookRequest, v *driver.View) {
		if old, ok := first[req.Line]; ok {
			*v = old
			return
		}
		first[req.Line] = *v
	})
}

func lookHidesAbsence(b *badBackend) {
	looked(b, func(req driver.LookRequest, v *driver.View) {
		if n := len(v.Entries); n > 0 && v.Entries[n-1].Place < req.Upto {
			own := driver.Ref{Line: req.Line, Key: "orders/settle#m1.1", Place: req.Upto}
			v.Entries = append(v.Entries, driver.Entry{Ref: own})
		}
	})
}

func lookComplete(b *badBackend) {
	looked(b, func(_ driver.LookRequest, v *driver.View) { v.Complete = true })
}

func lookBehind(b *badBackend) {
	looked(b, func(req driver.LookRequest, v *driver.View) { v.Entries = b.st.Entries(req.Line) })
}

func ctxIgnored(b *badBackend) {
	b.look = func(ctx context.Context, s driver.Session, req driver.LookRequest) (driver.View, error) {
		if ctx.Err() != nil {
			return driver.View{}, ctx.Err()
		}
		return s.Look(context.WithoutCancel(ctx), req)
	}
}

// shown plants a defect into what List and Look show.
func shown(b *badBackend, change func(all []driver.Entry) []driver.Entry) {
	b.list = func(_ string, all []driver.Entry) []driver.Entry { return change(all) }
	looked(b, func(_ driver.LookRequest, v *driver.View) { v.Entries = change(v.Entries) })
}

func foreignHidden(b *badBackend) {
	shown(b, func(all []driver.Entry) []driver.Entry {
		return slices.DeleteFunc(all, func(e driver.Entry) bool { return e.Foreign })
	})
}

func foreignUnmarked(b *badBackend) {
	shown(b, func(all []driver.Entry) []driver.Entry {
		for i := range all {
			all[i].Foreign = false
		}
		return all
	})
}

func unleasedUnmarked(b *badBackend) {
	shown(b, func(all []driver.Entry) []driver.Entry {
		for i := range all {
			all[i].Unleased = false
		}
		return all
	})
}

func brokenDropped(b *badBackend) {
	shown(b, func(all []driver.Entry) []driver.Entry {
		return slices.DeleteFunc(all, func(e driver.Entry) bool {
			return strings.HasSuffix(e.Key, "m1.0") && e.Meta.Kind == ""
		})
	})
}

// linesMeet reads a line as a range of keys without a terminator.
func linesMeet(b *badBackend) {
	b.list = func(name string, _ []driver.Entry) []driver.Entry {
		all, err := b.Backend.Names(context.Background(), name)
		if err != nil {
			panic(err)
		}
		var met []driver.Entry
		for _, n := range all {
			met = append(met, b.st.Entries(n)...)
		}
		return met
	}
}

func namesUnsorted(b *badBackend) {
	b.names = func(all []string) []string {
		slices.Reverse(all)
		return all
	}
}

// told plants a defect into the events of a watch. Each watch gets a filter.
func told(b *badBackend, filter func(req driver.WatchRequest) func(ev driver.Event) bool) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		pass := filter(req)
		return s.Watch(req, func(ev driver.Event) {
			if pass(ev) {
				f(ev)
			}
		})
	}
}

func loses(kind driver.EventKind) func(b *badBackend) {
	return func(b *badBackend) {
		told(b, func(driver.WatchRequest) func(driver.Event) bool {
			return func(ev driver.Event) bool { return ev.Kind != kind }
		})
	}
}

// armedSinceEver says of an entry that is gone that nothing was missed.
func armedSinceEver(b *badBackend) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		return s.Watch(req, func(ev driver.Event) {
			ev.Rev = 0
			f(ev)
		})
	}
}

func deadAfterCut(b *badBackend) {
	told(b, func(driver.WatchRequest) func(driver.Event) bool {
		dead := false
		return func(ev driver.Event) bool {
			dead = dead || ev.Kind == driver.Broken
			return !dead
		}
	})
}

func sinceForgotten(b *badBackend) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		req.Since = 0
		return s.Watch(req, f)
	}
}

func cancelIgnored(b *badBackend) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		s.Watch(req, f)
		return func() {}
	}
}

// ownLate has a connection of its own for own entries, and it is slow.
func ownLate(b *badBackend) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		if !req.Own {
			return s.Watch(req, f)
		}
		return s.Watch(req, func(ev driver.Event) {
			time.AfterFunc(time.Millisecond, func() { f(ev) })
		})
	}
}

// leaving plants a defect into the answers to Leave.
func leaving(b *badBackend, change func(left *driver.Left)) {
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		left, err := s.Leave(ctx, req)
		change(&left)
		return left, err
	}
}

// leaveOvertakes says that everything was told, and waits for nothing.
func leaveOvertakes(b *badBackend) { leaving(b, func(left *driver.Left) { left.Told = true }) }

func leaveUndated(b *badBackend) { leaving(b, func(left *driver.Left) { left.Rev = 0 }) }

func callbacksTogether(b *badBackend) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		return s.Watch(req, func(ev driver.Event) { go f(ev) })
	}
}

// proving plants a defect into the reports of proofs.
func proving(b *badBackend, change func(sent driver.Instant, ttl time.Duration) (driver.Instant, time.Duration)) {
	b.config = func(cfg driver.Config) driver.Config {
		report := cfg.Proof
		cfg.Proof = func(sent driver.Instant, ttl time.Duration) { report(change(sent, ttl)) }
		return cfg
	}
}

func proofFromReceipt(b *badBackend) {
	proving(b, func(_ driver.Instant, ttl time.Duration) (driver.Instant, time.Duration) {
		return b.Clock().Now(), ttl
	})
}

func proofPromisesMore(b *badBackend) {
	proving(b, func(sent driver.Instant, ttl time.Duration) (driver.Instant, time.Duration) {
		return sent, ttl * 5 / 4
	})
}

func proofUnanswered(b *badBackend) {
	b.prove = func(s driver.Session, cfg driver.Config) {
		s.Prove()
		time.AfterFunc(time.Second, func() { cfg.Proof(b.Clock().Now(), cfg.TTL) })
	}
}

func proveIgnored(b *badBackend) { b.prove = func(driver.Session, driver.Config) {} }

func goneSwallowed(b *badBackend) {
	b.config = func(cfg driver.Config) driver.Config {
		cfg.Gone = nil
		return cfg
	}
}

func abandonRevokes(b *badBackend) {
	b.abandon = func(s driver.Session) {
		s.Abandon()
		b.st.Expire(s.ID())
	}
}

func abandonGoesOn(b *badBackend) { b.abandon = func(driver.Session) {} }

func closeLeaves(b *badBackend) {
	b.close = func(_ context.Context, s driver.Session) error {
		s.Abandon()
		return nil
	}
}

// goroutineLeft leaves a goroutine behind each session, for a year.
func goroutineLeft(b *badBackend) {
	b.config = func(cfg driver.Config) driver.Config {
		var once sync.Once
		go once.Do(func() { time.Sleep(365 * 24 * time.Hour) })
		return cfg
	}
}

// looksLate tells who is ahead when the join was answered, though the entry may
// have gone by then.
func looksLate(b *badBackend) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		j, err := s.Join(ctx, req)
		if err == nil {
			j.Known = slices.DeleteFunc(b.st.Entries(req.Line), func(e driver.Entry) bool { return e.Place >= j.Entry.Place })
			j.Ahead = len(j.Known)
		}
		return j, err
	}
}

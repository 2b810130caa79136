package drivertest_test

import (
	"context"
	"errors"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
)

// asking plants a defect into the request of a join.
func asking(b *badBackend, change func(req *driver.JoinRequest)) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		change(&req)
		return s.Join(ctx, req)
	}
}

func limitUnchecked(b *badBackend) {
	asking(b, func(req *driver.JoinRequest) { req.Follow = req.Limit != 0 })
}

func followRefused(b *badBackend) {
	asking(b, func(req *driver.JoinRequest) { req.Follow = false })
}

func limitUnnamed(b *badBackend) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		j, err := s.Join(ctx, req)
		var e *driver.LimitError
		if errors.As(err, &e) {
			err = driver.ErrLimitMismatch
		}
		return j, err
	}
}

// limitOld shows each look the limit of the first.
func limitOld(b *badBackend) {
	var first int64
	looked(b, func(req driver.LookRequest, v *driver.View) {
		if req.Limit && first == 0 {
			first = v.Limit
		}
		v.Limit = first
	})
}

// limitEntry keeps the limit in an entry of its own.
func limitEntry(b *badBackend) {
	b.setLimit = func(ctx context.Context, s driver.Session, line string, limit int64) error {
		b.st.PutForeign(line, "limit", false)
		return s.SetLimit(ctx, line, limit)
	}
}

// limitUndone has an earlier request arrive once more behind each one.
func limitUndone(b *badBackend) {
	var first int64
	b.setLimit = func(ctx context.Context, s driver.Session, line string, limit int64) error {
		err := s.SetLimit(ctx, line, limit)
		if first == 0 {
			first = limit
			return err
		}
		return errors.Join(err, s.SetLimit(ctx, line, first))
	}
}

// writeUndone is the like with values.
func writeUndone(b *badBackend) {
	var first []byte
	b.write = func(ctx context.Context, s driver.Session, ref driver.Ref, value []byte) error {
		err := s.Write(ctx, ref, value)
		if first == nil {
			first = value
			return err
		}
		return errors.Join(err, s.Write(ctx, ref, first))
	}
}

// valueDecoded takes every value for one of its own.
func valueDecoded(b *badBackend) {
	b.list = func(_ string, all []driver.Entry) []driver.Entry {
		for i, e := range all {
			if m, ok := driver.DecodeMeta(e.Value); ok {
				all[i].Meta = m
			}
		}
		return all
	}
}

func valueText(b *badBackend) {
	asking(b, func(req *driver.JoinRequest) {
		if req.Value != nil {
			req.Value = []byte(strings.ToValidUTF8(string(req.Value), ""))
		}
	})
}

func valueSmall(b *badBackend) {
	asking(b, func(req *driver.JoinRequest) {
		req.Value = req.Value[:min(len(req.Value), 1<<19)]
	})
}

func foreignValueHidden(b *badBackend) {
	b.list = func(_ string, all []driver.Entry) []driver.Entry {
		for i := range all {
			if all[i].Foreign {
				all[i].Value = nil
			}
		}
		return all
	}
}

// writeJoins puts a new entry with the new value.
func writeJoins(b *badBackend) {
	b.write = func(ctx context.Context, s driver.Session, ref driver.Ref, value []byte) error {
		if _, err := s.Leave(ctx, driver.LeaveRequest{Ref: ref}); err != nil {
			return err
		}
		_, err := s.Join(ctx, driver.JoinRequest{Line: ref.Line, Value: value})
		return err
	}
}

// entered plants a defect into what Enter says.
func entered(from, to driver.Past) func(b *badBackend) {
	return func(b *badBackend) {
		asking(b, func(req *driver.JoinRequest) { req.Ledger = false }) // leave it to Enter
		b.enter = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Past, error) {
			past, err := s.Enter(ctx, ref)
			if err == nil && past == from {
				past = to
			}
			return past, err
		}
	}
}

// enterForgets tells each call what the ledger says then.
func enterForgets(b *badBackend) {
	said := make(map[driver.Ref]bool)
	b.enter = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Past, error) {
		past, err := s.Enter(ctx, ref)
		if said[ref] {
			past = driver.PastClean
		}
		said[ref] = true
		return past, err
	}
}

// ledgerByOrder believes Join's name whoever is ahead.
func ledgerByOrder(b *badBackend) {
	over := make(map[driver.Ref]bool)
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		j, err := s.Join(ctx, req)
		over[j.Entry.Ref] = j.Entered
		return j, err
	}
	b.enter = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Past, error) {
		past, err := s.Enter(ctx, ref)
		if over[ref] {
			past = driver.PastClean
		}
		return past, err
	}
}

// leavesClean strikes names as it is told to, or not.
func leavesClean(clean bool) func(b *badBackend) {
	return func(b *badBackend) {
		b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
			req.Clean = clean
			return s.Leave(ctx, req)
		}
	}
}

// strikesAll clears the ledger for whoever leaves in good order.
func strikesAll(b *badBackend) {
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		if req.Clean {
			if _, err := s.Enter(ctx, req.Ref); err != nil {
				return driver.Left{}, err
			}
		}
		return s.Leave(ctx, req)
	}
}

// lineGone ends the watch of a line when that is empty.
func lineGone(b *badBackend) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		over := false
		return s.Watch(req, func(ev driver.Event) {
			if over {
				return
			}
			if over = req.Of == driver.OfLine && ev.Kind == driver.Changed && len(b.st.Entries(req.Ref.Line)) == 0; over {
				ev.Kind = driver.Gone
			}
			f(ev)
		})
	}
}

// lineEmptyUnseen arms the watch of a line when that has an entry.
func lineEmptyUnseen(b *badBackend) {
	told(b, func(req driver.WatchRequest) func(driver.Event) bool {
		blind := req.Of == driver.OfLine && len(b.st.Entries(req.Ref.Line)) == 0
		return func(ev driver.Event) bool { return !blind || ev.Kind != driver.Changed }
	})
}

package drivertest_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
)

// badViews are the defects of calls that read, and of what they show.
var badViews = []defect{
	// Every look is answered with the first answer, like a member that lags.
	{"look is old", "look/LookIsNotOlderThanAsked", func(b *badBackend) {
		first := make(map[string]driver.View)
		after(&b.look, func(req driver.LookRequest, v *driver.View) {
			if _, ok := first[req.Line]; !ok {
				first[req.Line] = *v
			}
			*v = first[req.Line]
		})
	}},
	{"look shows an entry that is gone", "look/LookShowsThatTheOwnEntryIsMissing", func(b *badBackend) {
		after(&b.look, func(req driver.LookRequest, v *driver.View) {
			if n := len(v.Entries); n > 0 && v.Entries[n-1].Place < req.Upto {
				own := driver.Ref{Line: req.Line, Key: "orders/settle#m1.1", Place: req.Upto}
				v.Entries = append(v.Entries, driver.Entry{Ref: own})
			}
		})
	}},
	{"look says complete", "look/LookShowsTheNearest", func(b *badBackend) {
		after(&b.look, func(_ driver.LookRequest, v *driver.View) { v.Complete = true })
	}},
	{"look shows who is behind", "look/LookShowsTheLineUptoAPlace", func(b *badBackend) {
		after(&b.look, func(req driver.LookRequest, v *driver.View) { v.Entries = memtest.Entries(b.st, req.Line) })
	}},
	{"context is ignored", "cancel/CallsReturnWhileCutBoth", func(b *badBackend) {
		b.look = func(s driver.Session, ctx context.Context, req driver.LookRequest) (driver.View, error) {
			if ctx.Err() != nil {
				return driver.View{}, ctx.Err()
			}
			return s.Look(context.WithoutCancel(ctx), req)
		}
	}},
	{"foreign entries are hidden", "foreign/ForeignEntriesCountAndAreMarked", func(b *badBackend) {
		b.shown(func(all []driver.Entry) []driver.Entry {
			return slices.DeleteFunc(all, func(e driver.Entry) bool { return e.Foreign })
		})
	}},
	{"foreign entries are not marked", "foreign/ForeignEntriesCountAndAreMarked", func(b *badBackend) {
		b.marked(func(e *driver.Entry) { e.Foreign = false })
	}},
	{"no session is not told", "foreign/AnEntryWithoutASessionIsMarked", func(b *badBackend) {
		b.marked(func(e *driver.Entry) { e.Unleased = false })
	}},
	{"a broken value loses the entry", "foreign/ABrokenValueNeverBreaksTheLine", func(b *badBackend) {
		b.shown(func(all []driver.Entry) []driver.Entry {
			return slices.DeleteFunc(all, func(e driver.Entry) bool {
				return strings.HasSuffix(e.Key, "m1.0") && e.Meta.Kind == ""
			})
		})
	}},
	// A line is read as a range of keys without a terminator.
	{"lines are prefixes", "names/NamesThatBeginAlikeNeverMeet", func(b *badBackend) {
		b.list = func(all []driver.Entry) []driver.Entry {
			if len(all) == 0 {
				return all
			}
			names, err := b.Backend.Names(context.Background(), all[0].Line)
			if err != nil {
				panic(err)
			}
			var met []driver.Entry
			for _, n := range names {
				met = append(met, memtest.Entries(b.st, n)...)
			}
			return met
		}
	}},
	{"names are not sorted", "names/NamesAreListedSortedByPrefix", func(b *badBackend) {
		b.names = func(all []string) []string {
			slices.Reverse(all)
			return all
		}
	}},
	{"an ask stands in the line", "asks/AnAskIsInNoLine", func(b *badBackend) {
		before(&b.join, func(req *driver.JoinRequest) {
			if name, ok := driver.AskedLine(req.Line); ok {
				req.Line = name
			}
		})
	}},
	{"asks have names", "asks/AnAskIsInNoLine", func(b *badBackend) {
		b.names = func(all []string) []string {
			if len(memtest.Entries(b.st, driver.AskLine(asked))) > 0 {
				all = append(all, driver.AskLine(asked))
			}
			return all
		}
	}},
	{"asks of all locks are together", "asks/AsksOfAllNamesAreApart", func(b *badBackend) {
		before(&b.join, func(req *driver.JoinRequest) {
			if _, ok := driver.AskedLine(req.Line); ok {
				req.Line = driver.AskLine(asked)
			}
		})
	}},
	{"an ask that is withdrawn stays", "asks/AnAskIsToldToWhoWatchesForIt", func(b *badBackend) {
		b.leave = func(s driver.Session, ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
			if _, ok := driver.AskedLine(req.Ref.Line); ok {
				return driver.Left{}, nil
			}
			return s.Leave(ctx, req)
		}
	}},
	{"values are taken for meta", "value/AValueIsStoredAsItIs", func(b *badBackend) {
		b.marked(func(e *driver.Entry) {
			if m, ok := driver.DecodeMeta(e.Value); ok {
				e.Meta = m
			}
		})
	}},
	{"values are text", "value/AValueIsStoredAsItIs", func(b *badBackend) {
		before(&b.join, func(req *driver.JoinRequest) {
			if req.Value != nil {
				req.Value = []byte(strings.ToValidUTF8(string(req.Value), ""))
			}
		})
	}},
	{"large values are cut", "value/AValueMayBeAsLargeAsTheProfileSays", func(b *badBackend) {
		before(&b.join, func(req *driver.JoinRequest) { req.Value = req.Value[:min(len(req.Value), 1<<19)] })
	}},
	{"foreign values are hidden", "value/TheValueOfAForeignEntryIsShown", func(b *badBackend) {
		b.marked(func(e *driver.Entry) {
			if e.Foreign {
				e.Value = nil
			}
		})
	}},
	{"write joins anew", "value/AWriteChangesTheValueInItsPlace", func(b *badBackend) {
		b.write = func(s driver.Session, ctx context.Context, ref driver.Ref, value []byte) error {
			if _, err := s.Leave(ctx, driver.LeaveRequest{Ref: ref}); err != nil {
				return err
			}
			_, err := s.Join(ctx, driver.JoinRequest{Line: ref.Line, Value: value})
			return err
		}
	}},
	// An earlier request arrives once more behind each one.
	{"a late write undoes a newer", "value/ALateWriteDoesNotUndoANewerOne", func(b *badBackend) {
		var first []byte
		b.write = func(s driver.Session, ctx context.Context, ref driver.Ref, value []byte) error {
			if err := s.Write(ctx, ref, value); first == nil || err != nil {
				first = value
				return err
			}
			return s.Write(ctx, ref, first)
		}
	}},
	{"a late limit undoes a newer", "limit/ALateSetLimitDoesNotUndoANewerOne", func(b *badBackend) {
		var first int64
		b.setLimit = func(s driver.Session, ctx context.Context, line string, limit int64) error {
			if err := s.SetLimit(ctx, line, limit); first == 0 || err != nil {
				first = limit
				return err
			}
			return s.SetLimit(ctx, line, first)
		}
	}},
	{"a limit is not checked", "limit/AnotherLimitIsRefusedAndNamed", func(b *badBackend) {
		before(&b.join, func(req *driver.JoinRequest) { req.Follow = req.Limit != 0 })
	}},
	{"a limit is not named", "limit/AnotherLimitIsRefusedAndNamed", func(b *badBackend) {
		failed(&b.join, func(_ driver.Session, _ driver.JoinRequest, err error) error {
			var e *driver.LimitError
			if errors.As(err, &e) {
				return driver.ErrLimitMismatch
			}
			return err
		})
	}},
	{"follow is refused", "limit/WhoFollowsTakesTheLimitThatIsThere", func(b *badBackend) {
		before(&b.join, func(req *driver.JoinRequest) { req.Follow = false })
	}},
	{"looks show an old limit", "limit/ALookShowsALimitNotOlderThanTheLine", func(b *badBackend) {
		var first int64
		after(&b.look, func(req driver.LookRequest, v *driver.View) {
			if req.Limit && first == 0 {
				first = v.Limit
			}
			v.Limit = first
		})
	}},
	{"a limit is an entry", "limit/ALimitAloneIsNoLine", func(b *badBackend) {
		b.setLimit = func(s driver.Session, ctx context.Context, line string, limit int64) error {
			memtest.PutForeign(b.st, line, "limit", false)
			return s.SetLimit(ctx, line, limit)
		}
	}},
}

// asked is the lock whose asks defects are about.
const asked = "orders/settle"

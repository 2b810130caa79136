package drivertest_test

import (
	"context"
	"slices"
	"sync"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
)

// faultyJoins are faults of calls that write.
var faultyJoins = []planted{
	{"join counts one too few ahead", "order/PlacesRiseInTheOrderOfJoining", func(b *faulty) {
		b.joined(func(j *driver.Joined) { j.View.Count = max(0, j.View.Count-1) })
	}},
	{"join shows the first for the nearest", "order/PlacesRiseInTheOrderOfJoining", func(b *faulty) {
		b.joined(func(j *driver.Joined) { j.View.Entries = j.View.Entries[:min(1, len(j.View.Entries))] })
	}},
	{"join reads when it was made", "order/AnEntryDeletedBeforeItsAnswerHasNotBeenFirst", func(b *faulty) {
		b.joined(func(j *driver.Joined) {
			ahead := slices.DeleteFunc(memtest.Entries(b.st, j.Entry.Queue), func(e driver.Entry) bool { return e.Place >= j.Entry.Place })
			j.View.Entries, j.View.Count, j.View.Complete = ahead, len(ahead), true
		})
	}},
	{"tokens do not rise", "order/TokensRiseAfterTheQueueWasEmpty", func(b *faulty) {
		b.joined(func(j *driver.Joined) { j.Entry.Token = 7 })
	}},
	{"join reads before it writes", "order/AloneItTakesOneRoundTrip", readsFirst},
	{"join's records are older", "read/TheRecordsOfAJoinAreNotOlderThanTheJoin", readsFirst},
	{"one entry for a session", "order/TwoEntriesOfASessionAreTwo", func(b *faulty) {
		var mu sync.Mutex
		have := make(map[string][]driver.Joined)
		sound := b.join
		b.join = func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest) (js []driver.Joined, err error) {
			mu.Lock()
			defer mu.Unlock()
			js, ok := have[s.ID()+reqs[0].Queue]
			if !ok {
				js, err = sound(s, ctx, reqs)
				have[s.ID()+reqs[0].Queue] = js
			}
			return js, err
		}
	}},
	{"if-empty writes", "order/IfEmptyWritesNothingBehindOthers", func(b *faulty) {
		sound := b.join
		b.join = func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
			js, err := sound(s, ctx, reqs)
			if err != nil && reqs[0].IfEmpty {
				reqs = slices.Clone(reqs)
				reqs[0].IfEmpty = false
				_, _ = sound(s, ctx, reqs)
			}
			return js, err
		}
	}},
	{"several queues are joined one by one", "several/JoinsOfSeveralQueuesHaveOneOrder", func(b *faulty) {
		sound := b.join
		b.join = func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest) (all []driver.Joined, err error) {
			for _, req := range reqs {
				js, err := sound(s, ctx, []driver.JoinRequest{req})
				if err != nil {
					return nil, err
				}
				all = append(all, js...)
			}
			return all, nil
		}
	}},
	{"unknown is reported as not done", "cancel/AnUnknownOutcomeIsPending", func(b *faulty) {
		failed(&b.join, func(_ driver.Session, _ []driver.JoinRequest, err error) error {
			if p := pending(err); p != nil {
				return p.Err
			}
			return err
		})
	}},
	{"settle lies", "cancel/JoinReturnsWhileCutReplies", func(b *faulty) {
		b.settling(func(driver.Session, context.Context, []driver.JoinRequest, func(context.Context) error) error {
			return nil
		})
	}},
	// It takes what it does not find for something that will not come.
	{"settle has no fence", "late/ALateJoinAfterSettleMakesNoEntry", func(b *faulty) {
		b.settling(func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest, _ func(context.Context) error) error {
			for _, req := range reqs {
				for _, e := range memtest.Entries(b.st, req.Queue) {
					if e.Session == s.ID() {
						b.st.Delete(e.Queue, e.Key)
					}
				}
			}
			return nil
		})
	}},
	{"settle looks for the first entry only", "cancel/SettleDeletesTheOthersOfAnEntryThatIsGone", func(b *faulty) {
		b.settling(func(_ driver.Session, ctx context.Context, reqs []driver.JoinRequest, settle func(context.Context) error) error {
			if len(memtest.Entries(b.st, reqs[0].Queue)) == 0 {
				return nil
			}
			return settle(ctx)
		})
	}},
	{"settle leaves records", "cancel/AnUnknownOutcomeIsPending", func(b *faulty) {
		b.settling(func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest, settle func(context.Context) error) error {
			err := settle(ctx)
			if err == nil {
				_, _ = s.Update(ctx, driver.UpdateRequest{Queue: reqs[0].Queue, Ops: reqs[0].Ops[:1]})
			}
			return err
		})
	}},
	{"a second settle leaves records", "cancel/ASettleThatIsCanceledIsFinishedByTheNext", func(b *faulty) {
		failed := false
		b.settling(func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest, settle func(context.Context) error) error {
			err := settle(ctx)
			if err == nil && failed {
				_, _ = s.Update(ctx, driver.UpdateRequest{Queue: reqs[0].Queue, Ops: reqs[0].Ops[:1]})
			}
			failed = err != nil
			return err
		})
	}},
	{"settle deletes records that another client has seen", "cancel/SettleIsIdempotentAndOutlivesTheSession", func(b *faulty) {
		b.settling(func(_ driver.Session, ctx context.Context, reqs []driver.JoinRequest, settle func(context.Context) error) error {
			if err := settle(ctx); err != nil {
				return err
			}
			o, err := b.Backend.Open(ctx, driver.Config{Observer: true})
			if err != nil {
				return err
			}
			_, err = o.Update(ctx, driver.UpdateRequest{Queue: reqs[0].Queue, Ops: []driver.Op{{Record: "ledger", If: driver.Equal([]byte("mine"))}}})
			return driver.JoinErrors(err, o.Close(ctx))
		})
	}},
	{"leave is always sure", "leave/LeaveDeletesAndASecondFindsItGone", func(b *faulty) {
		b.left(func(driver.Left) driver.Left { return driver.Deleted })
	}},
	{"a second attempt takes the entry that it finds for its own", "leave/DeletedBetweenTwoAttemptsIsNotDeletedByTheSecond", func(b *faulty) {
		b.left(func(driver.Left) driver.Left { return driver.Deleted })
	}},
	{"an unclear end is one before", "lost/ALeaveSurvivesBrokenReply", func(b *faulty) {
		b.left(func(l driver.Left) driver.Left { return l * 2 })
	}},
	{"leave goes by the key", "leave/LeaveNeverDeletesALaterEntry", func(b *faulty) { b.leavesByKey() }},
	{"evict goes by the key", "leave/EvictNeverDeletesALaterEntry", func(b *faulty) { b.leavesByKey() }},
	{"a refused op fails a leave", "ops/OpsOfLeaveAreDoneIfTheirConditionIsMet", func(b *faulty) {
		sound := b.leave
		b.leave = func(s driver.Session, ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
			if _, err := s.Update(ctx, driver.UpdateRequest{Queue: reqs[0].Ref.Queue, Ops: required(reqs[0].Ops)}); err != nil {
				return nil, err
			}
			return sound(s, ctx, leaves(reqs))
		}
	}},
	{"a leave of what is gone does no ops", "leave/LeaveOfWhatIsGoneChangesBoundRecordsOnly", func(b *faulty) {
		b.leaving(func(req *driver.LeaveRequest) {
			if !b.there(req.Ref) {
				req.Ops = nil
			}
		})
	}},
	{"a leave of what is gone does all ops", "leave/LeaveOfWhatIsGoneChangesBoundRecordsOnly", func(b *faulty) {
		b.leaving(func(req *driver.LeaveRequest) {
			for i := range req.Ops {
				req.Ops[i].Bound = true
			}
		})
	}},
	{"a refused op is all ops", "ops/OpsOfLeaveAreDoneIfTheirConditionIsMet", func(b *faulty) {
		sound := b.leave
		b.leave = func(s driver.Session, ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
			for _, req := range reqs {
				_, _ = s.Update(ctx, driver.UpdateRequest{Queue: req.Ref.Queue, Ops: required(req.Ops)})
			}
			return sound(s, ctx, leaves(reqs))
		}
	}},
	{"conditions are not checked", "ops/OpsOfJoinAreDoneIfTheirConditionIsMet", optionalOps},
	{"an update is half done", "ops/OpsOfUpdateAreDoneIfTheirConditionIsMet", optionalOps},
	{"an update of records is half done", "ops/OpsOfUpdateOfRecordsAreDoneIfTheirConditionIsMet", optionalOps},
	{"an optional op fails its request", "ops/OptionalOpsOfUpdateNeverFailIt", func(b *faulty) {
		b.ops(func(op *driver.Op) { op.Optional = false })
	}},
	{"an optional op is left out in any case", "ops/OptionalOpsOfJoinNeverFailIt", func(b *faulty) {
		b.ops(func(op *driver.Op) {
			if op.Optional {
				op.If = driver.At(-1)
			}
		})
	}},
	{"at is equal", "ops/OpsOfUpdateAreDoneIfTheirConditionIsMet", atIsEqual},
	{"a late update undoes a newer one", "late/ALateUpdateDoesNotUndoANewerOneOfARecord", func(b *faulty) {
		sound := b.update
		b.update = func(s driver.Session, ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
			req.Ops = slices.Clone(req.Ops)
			for i, op := range req.Ops {
				r := memtest.Records(b.st, req.Queue)[op.Record]
				if op.If.Kind == driver.IfAt && r.Version == op.If.Version {
					req.Ops[i].If = driver.Equal(r.Value)
				}
			}
			return sound(s, ctx, req)
		}
	}},
	{"an update is not for its entry", "data/AnUpdateOfAnEntryThatIsGoneDoesNothing", func(b *faulty) {
		before(&b.update, func(req *driver.UpdateRequest) {
			if req.Marks == 0 && req.Data == nil && req.Detail == nil {
				req.Entry = driver.Ref{}
			}
		})
	}},
	{"an update that was done reports that its entry is gone", "lost/AnUpdateOfAnEntryThatGoesBeforeItsRetryIsNoGuessAfterBrokenReply", func(b *faulty) {
		failed(&b.update, func(_ driver.Session, req driver.UpdateRequest, err error) error {
			if err == nil && !req.Entry.Zero() && !b.there(req.Entry) {
				return driver.ErrGone
			}
			return err
		})
	}},
	{"an update by an attempt without an answer shows no record", "lost/OpsOfUpdateSurviveLostReply", resultsOfLast},
	{"an update of records by an attempt without an answer shows no record", "lost/OpsOfUpdateOfRecordsSurviveBrokenReply", resultsOfLast},
	{"a bound record is not bound", "record/ABoundRecordEndsWithItsSessionOnly", func(b *faulty) {
		b.ops(func(op *driver.Op) { op.Bound = false })
	}},
	{"a record is bound", "ops/OpsOfUpdateAreDoneIfTheirConditionIsMet", func(b *faulty) {
		b.ops(func(op *driver.Op) { op.Bound = true })
	}},
	{"a bound record goes with its entry", "record/ABoundRecordEndsWithItsSessionOnly", func(b *faulty) {
		b.leaving(func(req *driver.LeaveRequest) {
			req.Ops = append(slices.Clone(req.Ops), driver.Op{Record: "slot/0", If: driver.Equal([]byte("mine"))})
		})
	}},
	{"a detail is an event", "data/ADetailIsReplacedAndIsNoEvent", func(b *faulty) {
		after(&b.update, func(req driver.UpdateRequest, _ *[]driver.Result) {
			if req.Detail != nil {
				memtest.Overwrite(b.st, req.Entry.Queue, req.Entry.Key, nil)
			}
		})
	}},
	{"a mark is not written", "marks/AMarkedEntryKeepsAllButItsMark", func(b *faulty) {
		before(&b.update, func(req *driver.UpdateRequest) { req.Marks = 0 })
	}},
	{"a mark makes the entry anew", "marks/AMarkIsReported", func(b *faulty) {
		after(&b.update, func(req driver.UpdateRequest, _ *[]driver.Result) {
			if req.Marks != 0 {
				b.st.Delete(req.Entry.Queue, req.Entry.Key)
			}
		})
	}},
}

// settling plants a fault into what settles a Join.
func (b *faulty) settling(settle func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest, sound func(context.Context) error) error) {
	failed(&b.join, func(s driver.Session, reqs []driver.JoinRequest, err error) error {
		if p := pending(err); p != nil {
			sound := p.Settle
			p.Settle = func(ctx context.Context) error { return settle(s, ctx, reqs, sound) }
		}
		return err
	})
}

func readsFirst(b *faulty) {
	sound := b.join
	b.join = func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
		v, _ := s.Read(ctx, driver.ReadRequest{Queue: reqs[0].Queue, Records: reqs[0].Records})
		js, err := sound(s, ctx, reqs)
		for i := range js {
			js[i].View.Records = v.Records
		}
		return js, err
	}
}

// leavesByKey takes an entry for another that had its key.
func (b *faulty) leavesByKey() {
	b.leaving(func(req *driver.LeaveRequest) {
		for _, e := range memtest.Entries(b.st, req.Ref.Queue) {
			if e.Key == req.Ref.Key {
				req.Ref = e.Ref
			}
		}
	})
}

// leaves are requests without their Ops.
func leaves(reqs []driver.LeaveRequest) []driver.LeaveRequest {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		reqs[i].Ops = nil
	}
	return reqs
}

func required(ops []driver.Op) []driver.Op {
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].Optional = false
	}
	return ops
}

// resultsOfLast shows what the only attempt of an Update has done, and nothing if there were more.
func resultsOfLast(b *faulty) {
	sound := b.update
	b.update = func(s driver.Session, ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
		before := b.c.Sent(fault.Update)
		results, err := sound(s, ctx, req)
		if b.c.Sent(fault.Update) > before+1 {
			clear(results)
		}
		return results, err
	}
}

func optionalOps(b *faulty) { b.ops(func(op *driver.Op) { op.Optional = true }) }

// atIsEqual takes a record for unchanged that has the value that it had first.
func atIsEqual(b *faulty) {
	b.ops(func(op *driver.Op) {
		if op.If.Kind == driver.IfAt {
			op.If = driver.Equal([]byte("a"))
		}
	})
}

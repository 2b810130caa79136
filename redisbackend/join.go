package redisbackend

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/redisbackend/internal/call"
	"github.com/fairlock/fairlock/redisbackend/internal/hub"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// What one Join can hold.
const (
	maxJoin    = 64
	maxData    = 1 << 20
	maxDetail  = 2 << 10
	mostNearby = 64 // entries ahead in an answer, for a request that wants what costs nothing more
)

// join makes entries, or returns why not.
func (s *redisSession) join(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	args, err := s.joinArgs(reqs)
	if err != nil {
		return nil, err
	}
	watched := s.hub.Joins()
	defer s.hub.Unjoined(watched)
	t := s.slots.begin()
	a, err := s.write(ctx, fault.Join, &s.scripts.Join, t, args)
	switch {
	case err != nil && a.Unknown:
		s.slots.wait(t)
		return nil, &driver.PendingError{Err: err, Settle: func(ctx context.Context) error { return s.settle(ctx, t, reqs) }}
	case err != nil:
		return nil, err
	}
	switch a.Text(0) {
	case script.Taken:
		q := reqs[a.Int(1)-1].Queue
		s.hub.Answered(q)
		first, err := a.List(3).List(0).Entry(q)
		if err != nil {
			return nil, err //nolint:wrapcheck // Join does
		}
		return nil, &driver.TakenError{Queue: q, Count: int(a.Int(2)), First: first}
	case script.Refused:
		r := &reqs[a.Int(1)-1]
		s.hub.Answered(r.Queue)
		return nil, refused(r.Queue, r.Ops, a.Reply)
	}
	s.backend.saw(a.Int(1))
	return s.joined(reqs, a.Int(1), a.List(2), watched)
}

// refused returns the error of a request of which a required op was not done.
func refused(queue string, ops []driver.Op, r script.Reply) error {
	return &driver.RefusedError{Queue: queue, Op: ops[r.Int(2)-1], Record: script.Record(r.Text(3)), Known: true}
}

func (s *redisSession) joinArgs(reqs []driver.JoinRequest) (script.Args, error) {
	switch {
	case s.cfg.Observer:
		return nil, fmt.Errorf("%w: an observer makes no entries", driver.ErrRefused)
	case len(reqs) > maxJoin:
		return nil, fmt.Errorf("%w: %d queues are more than %d", driver.ErrRefused, len(reqs), maxJoin)
	}
	var a script.Args
	var queues []string
	a.Int(int64(len(reqs)))
	for i := range reqs {
		r := &reqs[i]
		switch {
		case len(r.Data) > maxData:
			return nil, fmt.Errorf("%w: the data has %d bytes, more than %d", driver.ErrRefused, len(r.Data), maxData)
		case slices.Contains(queues, r.Queue):
			return nil, fmt.Errorf("%w: queue %q is there twice", driver.ErrRefused, r.Queue)
		}
		queues = append(queues, r.Queue)
		_, asks := driver.AskedQueue(r.Queue)
		nearest := r.Nearest
		if nearest <= 0 {
			nearest = mostNearby
		}
		a.Text(r.Queue)
		a.Int(int64(r.Mode), r.Weight)
		a.Flag(r.Valued)
		a.Text(string(r.Data))
		a.Bytes(bounded(r.Detail))
		a.Flag(r.IfEmpty)
		a.Int(int64(nearest))
		a.Flag(!asks)
		a.Ops(r.Ops)
		a.Texts(r.Records)
	}
	return a, nil
}

// bounded returns a detail, or nil for one that is longer than the contract allows.
func bounded(detail []byte) []byte {
	if len(detail) > maxDetail {
		return nil
	}
	return detail
}

func (s *redisSession) joined(reqs []driver.JoinRequest, place int64, all script.Reply, watched *hub.Join) ([]driver.Joined, error) {
	joined := make([]driver.Joined, len(reqs))
	for i := range reqs {
		r, answer := &reqs[i], all.List(i)
		entries, err := answer.List(1).Entries(r.Queue)
		if err != nil {
			return nil, err //nolint:wrapcheck // Join does
		}
		count := int(answer.Int(0))
		joined[i] = driver.Joined{
			Entry: driver.Entry{
				Ref:  driver.Ref{Queue: r.Queue, Key: script.Key(s.id, place), Place: place},
				Mode: r.Mode, Weight: r.Weight, Valued: r.Valued, Token: place, Session: s.id, Data: r.Data, Detail: bounded(r.Detail),
			},
			View: driver.View{Entries: entries, Count: count, Complete: len(entries) == count, Records: answer.List(3).Records()},
			Ops:  answer.List(2).Results(),
		}
		var near driver.Entry
		var changes int64
		nearest := len(entries) - 1
		if nearest >= 0 {
			near = entries[nearest]
			_, changes, _ = script.Header(answer.List(1).List(nearest).Text(1))
		}
		s.hub.Joined(watched, joined[i].Entry.Ref, near, changes)
	}
	return joined, nil
}

// settle makes sure that no attempt of a Join has made an entry, or will. It needs no session: where that is
// over, so are its entries.
func (s *redisSession) settle(ctx context.Context, t turn, reqs []driver.JoinRequest) error {
	args := script.Args{s.life, s.id}
	args.Int(int64(t.slot), t.number, int64(len(reqs)))
	for i := range reqs {
		var names []string
		for _, op := range reqs[i].Ops {
			if op.If.Kind == driver.IfAbsent {
				names = append(names, op.Record)
			}
		}
		args.Text(reqs[i].Queue)
		args.Texts(names)
	}
	a, err := s.after.Do(ctx, call.Request{Op: fault.Settle, Script: &s.scripts.Settle, Args: func(int) script.Args { return args }})
	switch {
	case err != nil:
		return fmt.Errorf("redis: settle a join of %q: %w", reqs[0].Queue, err)
	case a.Text(0) == script.Life || a.Text(0) == script.Over:
		return fmt.Errorf("redis: settle a join of %q: %w", reqs[0].Queue, errNoSession)
	}
	s.slots.settled(t)
	return nil
}

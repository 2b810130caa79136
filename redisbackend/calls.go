package redisbackend

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// leave deletes entries. The server carries it out once, and keeps the answer: so that is exact, also if an
// earlier attempt was carried out.
func (s *redisSession) leave(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	var args script.Args
	args.Int(int64(len(reqs)))
	for i := range reqs {
		r := &reqs[i]
		args.Text(r.Ref.Queue)
		if script.SessionOf(r.Ref) == "" {
			args.Text("0") // no entry has it
		} else {
			args.Int(r.Ref.Place)
		}
		args.Flag(r.First)
		args.Flag(r.Any)
		args.Ops(r.Ops)
	}
	t := s.slots.begin()
	a, err := s.write(ctx, fault.Leave, &s.scripts.Leave, t, args)
	if err != nil {
		if a.Unknown {
			s.slots.gaveUp(t)
		}
		return nil, err
	}
	left := make([]driver.Left, len(reqs))
	for i := range reqs {
		left[i] = driver.WasGone
		if a.List(1).Int(i) == 1 {
			left[i] = driver.Deleted
		}
		s.hub.Left(reqs[i].Ref, reqs[i].First && left[i] == driver.Deleted)
	}
	return left, nil
}

// update changes an own entry and records. The server carries it out once, and keeps the answer.
func (s *redisSession) update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	for _, op := range req.Ops {
		if op.Bound && s.cfg.Observer {
			return nil, fmt.Errorf("%w: an observer binds no records", driver.ErrRefused)
		}
	}
	if len(req.Data) > maxData {
		return nil, fmt.Errorf("%w: the data has %d bytes, more than %d", driver.ErrRefused, len(req.Data), maxData)
	}
	args := script.Args{req.Queue}
	switch {
	case req.Entry.Zero():
		args.Text("")
	case script.SessionOf(req.Entry) != s.id:
		return nil, driver.ErrGone
	default:
		args.Int(req.Entry.Place)
	}
	args.Int(int64(req.Marks))
	args.Bytes(req.Data)
	args.Bytes(bounded(req.Detail))
	args.Ops(req.Ops)
	t := s.slots.begin()
	a, err := s.write(ctx, fault.Update, &s.scripts.Update, t, args)
	if err != nil {
		if a.Unknown {
			s.slots.gaveUp(t)
		}
		return nil, err
	}
	s.hub.Answered(req.Queue)
	switch a.Text(0) {
	case script.Gone:
		return nil, driver.ErrGone
	case script.Refused:
		return nil, refused(req.Queue, req.Ops, a.Reply)
	}
	return a.List(1).Results(), nil
}

// read returns part of a queue, of one moment.
func (s *redisSession) read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	a, err := s.run(ctx, s.calls, fault.Read, &s.scripts.Read, func() script.Args {
		args := script.Args{req.Queue}
		args.Int(req.Upto, req.From, int64(req.Nearest))
		args.Flag(req.Detail)
		args.Texts(req.Records)
		return args
	})
	if err != nil {
		return driver.View{}, err
	}
	s.hub.Answered(req.Queue)
	entries, err := a.List(3).Entries(req.Queue)
	if err != nil {
		return driver.View{}, err //nolint:wrapcheck // Read does
	}
	return driver.View{Entries: entries, Complete: a.Int(2) == 1, Count: int(a.Int(1)), Records: a.List(4).Records()}, nil
}

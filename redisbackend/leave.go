package redisbackend

import (
	"context"

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

package redisbackend

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

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
	switch a.Text(0) {
	case script.Gone:
		return nil, driver.ErrGone
	case script.Refused:
		return nil, refused(req.Queue, req.Ops, a.Reply)
	}
	return a.List(1).Results(), nil
}

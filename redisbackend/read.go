package redisbackend

import (
	"context"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

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
	entries, err := a.List(3).Entries(req.Queue)
	if err != nil {
		return driver.View{}, err //nolint:wrapcheck // Read does
	}
	return driver.View{Entries: entries, Complete: a.Int(2) == 1, Count: int(a.Int(1)), Records: a.List(4).Records()}, nil
}

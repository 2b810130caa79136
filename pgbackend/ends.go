package pgbackend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/session/driver"
)

// ends ends sessions of other clients that are over, for the hub and for the sweep. While one cannot
// be ended, all that is behind its entries waits. No call has that error, so it is logged.
type ends struct {
	s    *pgSession
	send *call.Sender

	mu     sync.Mutex
	outage driver.Outage
	cause  string // of the outage
}

// endTime bounds the end of one session: other sessions have their turn after it.
const endTime = 10 * time.Second

// end ends a session if it still has the version of a sight.
func (e *ends) end(ctx context.Context, due observed.Sight) error {
	s := e.s
	bounded, stop := driver.WithTimeout(ctx, s.backend.clock, endTime)
	defer stop()
	err := s.end(bounded, e.send, due)
	// Where a tool may not end a session, one that waits does it.
	if s.ctx.Err() != nil || ctx.Err() != nil || s.cfg.Observer {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := s.backend.clock.Now()
	if err == nil {
		log, lasted := e.outage.Over(now)
		if log {
			s.log.InfoContext(ctx, "postgres: sessions that are over are ended again", "after", lasted)
		}
		return nil
	}
	why := causeOf(err)
	if why != e.cause {
		e.outage, e.cause = driver.Outage{}, why
	}
	log, since := e.outage.Failed(now)
	if log {
		s.log.WarnContext(ctx, "postgres: a session that is over was not ended, so its entries stay", "session", due.ID, "error", err.Error(), "since", since)
	}
	return err
}

// causeOf returns what two errors share that are logged once: the code of the server, or whether
// there is none because it has not answered.
func causeOf(err error) string {
	var server *pgconn.PgError
	switch {
	case errors.As(err, &server):
		return server.Code
	case driver.Incurable(err):
		return err.Error()
	}
	return ""
}

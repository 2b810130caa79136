package pgbackend

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlock/fairlock/pgbackend/internal/call"
)

// ownConn is the connection for renewals of one session. Nothing else uses it once the session is
// open, so no renewal waits for another request.
type ownConn struct {
	call.Line
	warnings atomic.Int64
	pid      atomic.Uint32 // of the newest connection, as the server gave it at login
}

func newOwnConn(b *backend) *ownConn {
	p := &ownConn{}
	p.Dial = func(ctx context.Context) (*pgx.Conn, error) {
		conn, err := b.dialOwn(ctx, b.config, nil, func(*pgconn.Notice) { p.warnings.Add(1) })
		if err == nil {
			p.pid.Store(conn.PgConn().PID())
		}
		return conn, err
	}
	return p
}

// direct reports whether no pooler is between: the server process has the number that was given
// at login.
func (p *ownConn) direct(pid uint32) bool { return p.pid.Load() == pid }

// proves runs a write, and reports whether its commit is a proof that all standbys that it must
// wait for have it. A wait that is cancelled, by a statement timeout for example, ends with a
// warning, and the commit as if it had not been cancelled.
func (p *ownConn) proves(write func() error) (bool, error) {
	before := p.warnings.Load()
	err := write()
	return err == nil && p.warnings.Load() == before, err
}

func (p *ownConn) close() { p.Line.Close() }

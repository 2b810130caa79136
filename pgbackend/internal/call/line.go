package call

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool lends the connections of a pool.
type Pool struct{ *pgxpool.Pool }

// Acquire implements Conns.
func (p Pool) Acquire(ctx context.Context) (*pgx.Conn, func(), error) {
	c, err := p.Pool.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	return c.Conn(), c.Release, nil
}

// Line lends one connection, which it makes when it is first asked for and again when it broke.
// Its zero value with a Dial is ready to use.
type Line struct {
	// Dial makes a connection. It returns soon after ctx ends.
	Dial func(ctx context.Context) (*pgx.Conn, error)

	once sync.Once
	turn chan struct{} // has one value while the connection is free
	conn *pgx.Conn     // of the caller that has the turn; nil before the first use, and after a failure
	shut bool          // Close was called; with the turn
}

// Acquire implements Conns.
func (l *Line) Acquire(ctx context.Context) (*pgx.Conn, func(), error) {
	l.init()
	select {
	case <-l.turn:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	release := func() { l.turn <- struct{}{} }
	if l.conn != nil && !l.conn.IsClosed() {
		return l.conn, release, nil
	}
	l.conn = nil
	if l.shut {
		release()
		return nil, nil, errShut
	}
	conn, err := l.Dial(ctx)
	if err != nil {
		release()
		return nil, nil, err
	}
	l.conn = conn
	return conn, release, nil
}

var errShut = fmt.Errorf("the backend is closed")

func (l *Line) init() {
	l.once.Do(func() {
		l.turn = make(chan struct{}, 1)
		l.turn <- struct{}{}
	})
}

// closing bounds the good-bye of a connection.
const closing = 100 * time.Millisecond

// Close waits until the connection is free, and closes it.
func (l *Line) Close() {
	l.init()
	<-l.turn
	l.shut = true
	if l.conn != nil {
		Hangup(l.conn)
	}
	l.turn <- struct{}{}
}

// Hangup closes a connection. It returns soon, whatever the network does.
func Hangup(conn *pgx.Conn) {
	ctx, stop := context.WithTimeout(context.Background(), closing)
	defer stop()
	_ = conn.Close(ctx) // nothing depends on the good-bye
}

package sqllocks

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/fairlock/fairlock/robustness/designs/lock"
)

// Row is a row with a unique key: the insert succeeds for one program, and the others try again and again. It is
// the lock that people build on a table first, and many frameworks for migrations have it.
type Row struct{ *DB }

// Lock implements lock.Locker.
func (l *Row) Lock(ctx context.Context, name string) (lock.Hold, error) {
	owner := rand.Text()
	for {
		n, err := l.insert(ctx, "designs.taken (name, owner, since) values ($1, $2, $now)", name, owner)
		switch {
		case err != nil:
			return nil, err
		case n == 1:
			return &rowHold{l, name, owner}, nil
		}
		lock.Wait(ctx, lock.Pause)
	}
}

type rowHold struct {
	l           *Row
	name, owner string
}

// Unlock implements lock.Hold. A row of another owner stays.
func (h *rowHold) Unlock(ctx context.Context) error {
	n, err := h.l.exec(ctx, "delete from designs.taken where name = $1 and owner = $2", h.name, h.owner)
	return lostIf(n == 0, err)
}

// lostIf returns the error of a release that has succeeded otherwise.
func lostIf(lost bool, err error) error {
	if err == nil && lost {
		return lock.ErrLost
	}
	return err
}

// Monitored is Row with a monitor that deletes rows which are older than a time, by the clock of the database.
// Job runners have it, where a job that was killed must not block the next one for ever.
type Monitored struct {
	Row
	stop context.CancelFunc
	rest chan struct{}
}

// Monitor adds the monitor, which here every program has.
func Monitor(db *DB, ttl time.Duration) *Monitored {
	ctx, stop := context.WithCancel(context.Background())
	m := &Monitored{Row{db}, stop, make(chan struct{})}
	go func() { // ends with Close
		defer close(m.rest)
		for ctx.Err() == nil {
			lock.Wait(ctx, ttl/8)
			_, _ = m.exec(ctx, "delete from designs.taken where since < "+db.d.inTime(-ttl)) // the next turn tries again
		}
	}()
	return m
}

// Close implements lock.Locker.
func (m *Monitored) Close() error {
	m.stop()
	<-m.rest
	return m.DB.Close()
}

package onpg

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// The peers: what programs use that have PostgreSQL and no library.
const (
	// Advisory is pg_advisory_lock, on a connection for each hold and each waiter. A careful
	// program sends something on the connection of a hold now and then, and takes a connection
	// that does not answer for lost.
	Advisory = "pg_advisory_lock"

	// Lease is a row with a time by the clock of the server until which it is taken. A holder
	// renews it, waiters try again and again, and each one that takes it counts a token up.
	Lease = "row lease"
)

// keepAlive is how often a careful program asks whether it still holds, and how long it waits for
// the answer.
const keepAlive = trial.TTL / 5

// leasePoll is how often a waiter tries to take a lease.
const leasePoll = 50 * time.Millisecond

const leaseTable = `
create table robustness.lease (name text primary key, owner text, token bigint not null, until timestamptz not null);
`

// advisoryKey returns the key of a queue.
func advisoryKey(queue string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(queue))        // never fails
	return int32(h.Sum32() & 0x7fffffff) //nolint:gosec // 31 bits
}

// ending is what both kinds of holds have: they end once.
type ending struct {
	once sync.Once
	done chan struct{}
	stop context.CancelFunc // of what renews it
	rest chan struct{}      // closed when that has ended
}

func (e *ending) end() { e.once.Do(func() { close(e.done) }) }

func (e *ending) Done() <-chan struct{} { return e.done }

func (e *ending) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// watch calls ask again and again until it fails or the hold is released.
func (e *ending) watch(ask func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.rest = stop, make(chan struct{})
	go func() { // ends with stop, or with the hold
		defer close(e.rest)
		for ctx.Err() == nil {
			wait(ctx, keepAlive)
			if ctx.Err() == nil && ask(ctx) != nil && ctx.Err() == nil {
				e.end()
				return
			}
		}
	}()
}

func (e *ending) halt() {
	e.stop()
	<-e.rest
}

// connect connects a peer to the server that takes writes.
func (n *network) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, n.url+writable)
}

// advisory is a client of pg_advisory_lock.
type advisory struct {
	*network
	pid atomic.Int64 // of the connection of the newest hold or waiter
}

func openAdvisory(ctx context.Context, n *network) (*advisory, error) {
	conn, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &advisory{network: n}, conn.Close(ctx)
}

func (c *advisory) Kinds() []string { return nil }

func (c *advisory) Session() string { return Advisory + ":" + strconv.FormatInt(c.pid.Load(), 10) }

func (c *advisory) Acquire(ctx context.Context, queue history.Queue, _ trial.Request) (trial.Hold, error) {
	for {
		h, err := c.try(ctx, queue.Name)
		if err == nil || ctx.Err() != nil {
			return h, err
		}
		wait(ctx, keepAlive) // a careful program connects again
	}
}

func (c *advisory) try(ctx context.Context, queue string) (trial.Hold, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.pid.Store(int64(conn.PgConn().PID()))
	if _, err := conn.Exec(ctx, "select pg_advisory_lock(7, $1)", pgx.QueryExecModeExec, advisoryKey(queue)); err != nil {
		hangup(conn) //nolint:contextcheck // it bounds itself
		return nil, err
	}
	h := &advisoryHold{ending: ending{done: make(chan struct{})}, conn: conn, key: advisoryKey(queue), pid: int64(conn.PgConn().PID())}
	h.watch(h.ask) //nolint:contextcheck // it bounds itself
	return h, nil
}

func hangup(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), keepAlive)
	defer cancel()
	_ = conn.Close(ctx) // it may be broken
}

// Close implements trial.Client.
func (c *advisory) Close() error {
	c.Heal()
	return c.Proxies.Close()
}

type advisoryHold struct {
	ending
	conn *pgx.Conn
	key  int32
	pid  int64
}

func (h *advisoryHold) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepAlive)
	defer cancel()
	_, err := h.conn.Exec(ctx, "select 1", pgx.QueryExecModeExec)
	return err
}

func (h *advisoryHold) Token() int64  { return 0 }
func (h *advisoryHold) Place() int64  { return 0 }
func (h *advisoryHold) Entry() string { return Advisory + ":" + strconv.FormatInt(h.pid, 10) }
func (h *advisoryHold) Held() bool    { return !h.over() }

func (h *advisoryHold) Release(ctx context.Context) (history.Outcome, error) {
	defer hangup(h.conn) //nolint:contextcheck // it bounds itself
	h.halt()
	if h.over() {
		return history.Lost, nil
	}
	var was bool
	err := h.conn.QueryRow(ctx, "select pg_advisory_unlock(7, $1)", pgx.QueryExecModeExec, h.key).Scan(&was)
	switch {
	case err != nil:
		return history.Pending, err
	case !was:
		return history.Lost, nil
	}
	return history.Released, nil
}

// lease is a client of the row lease.
type lease struct {
	*network
	s     *Service // nil in a process
	owner string
	conn  *pgx.Conn
	mu    sync.Mutex // one request at a time
}

func openLease(ctx context.Context, n *network, s *Service) (*lease, error) {
	conn, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &lease{network: n, s: s, owner: n.name, conn: conn}, nil
}

func (c *lease) Kinds() []string { return nil }

func (c *lease) Session() string { return Lease + ":" + c.owner }

// row sends a statement that returns at most one number, and connects again if that is needed. A
// waiter has more time than a holder, who has to renew.
func (c *lease) row(ctx context.Context, patience time.Duration, sql string, args ...any) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil || c.conn.IsClosed() {
		c.conn, err = c.connect(ctx)
		if err != nil {
			c.conn = nil
			return 0, err
		}
	}
	err = c.conn.QueryRow(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&n)
	return n, err
}

const (
	takeLease = `insert into robustness.lease as l values ($1, $2, 1, clock_timestamp() + $3::text::interval)
		on conflict (name) do update set owner = excluded.owner, token = l.token + 1, until = excluded.until
		where l.until < clock_timestamp() returning token`
	renewLease = `update robustness.lease set until = clock_timestamp() + $3::text::interval where name = $1 and owner = $2 and token = $4 returning token`
	dropLease  = `update robustness.lease set until = '-infinity' where name = $1 and owner = $2 and token = $3 returning token`
)

func leaseTime() string { return fmt.Sprintf("%d ms", trial.TTL.Milliseconds()) }

func (c *lease) Acquire(ctx context.Context, queue history.Queue, _ trial.Request) (trial.Hold, error) {
	if c.s != nil {
		c.s.waits(queue.Name, c.owner, true)
		defer c.s.waits(queue.Name, c.owner, false)
	}
	for {
		sent := time.Now()
		token, err := c.row(ctx, trial.TTL, takeLease, queue.Name, c.owner, leaseTime())
		if err == nil {
			h := &leaseHold{ending: ending{done: make(chan struct{})}, c: c, queue: queue.Name, token: token}
			h.until.Store(sent.Add(trial.TTL).UnixNano())
			h.expiry = time.AfterFunc(trial.TTL-time.Since(sent), h.end)
			h.watch(h.ask) //nolint:contextcheck // it bounds itself
			return h, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		wait(ctx, leasePoll)
	}
}

// waits notes who waits for a lease: the server does not know it.
func (s *Service) waits(queue, owner string, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begins {
		s.waiters[queue] = append(s.waiters[queue], Lease+":"+owner)
	} else {
		s.waiters[queue] = slices.DeleteFunc(s.waiters[queue], func(w string) bool { return w == Lease+":"+owner })
	}
}

// Close implements trial.Client.
func (c *lease) Close() error {
	c.Heal()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		hangup(c.conn)
	}
	return c.Proxies.Close()
}

type leaseHold struct {
	ending
	c     *lease
	queue string
	token int64
	until atomic.Int64 // on the clock of the client, counted from when the request was sent

	// expiry ends the hold at that time, also while a request has no answer. A renewal stops it
	// and starts it again, so it never restarts a hold that has ended.
	expiry *time.Timer
}

// ask renews the lease. The hold ends when the server says so, or when the time is up.
func (h *leaseHold) ask(ctx context.Context) error {
	sent := time.Now()
	_, err := h.c.row(ctx, keepAlive, renewLease, h.queue, h.c.owner, leaseTime(), h.token)
	if errors.Is(err, pgx.ErrNoRows) || !h.inTime() {
		return errReset
	}
	if err != nil {
		return nil //nolint:nilerr // the time goes on, and the next turn asks again
	}
	if !h.expiry.Stop() {
		return errReset
	}
	h.until.Store(sent.Add(trial.TTL).UnixNano())
	h.expiry.Reset(trial.TTL - time.Since(sent))
	return nil
}

func (h *leaseHold) inTime() bool { return time.Now().UnixNano() < h.until.Load() }

func (h *leaseHold) Token() int64  { return h.token }
func (h *leaseHold) Place() int64  { return 0 }
func (h *leaseHold) Entry() string { return Lease + ":" + h.c.owner }
func (h *leaseHold) Held() bool    { return !h.over() && h.inTime() }

func (h *leaseHold) Release(ctx context.Context) (history.Outcome, error) {
	h.halt()
	defer h.expiry.Stop()
	if h.over() {
		return history.Lost, nil
	}
	_, err := h.c.row(ctx, trial.TTL, dropLease, h.queue, h.c.owner, h.token)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return history.Lost, nil
	case err != nil:
		return history.Pending, err
	}
	return history.Released, nil
}

// peerEntries returns who holds and who waits.
func (s *Service) peerEntries(ctx context.Context, lock, queue string) (all []string, err error) {
	err = s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		sql := `select pid::text from pg_locks where locktype = 'advisory' and classid = 7 and objid = $1 order by granted desc, waitstart, pid`
		arg := any(advisoryKey(queue))
		if lock == Lease {
			sql, arg = `select owner from robustness.lease where name = $1 and until > clock_timestamp()`, queue
		}
		rows, err := conn.Query(ctx, sql, arg)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			var of string
			err := row.Scan(&of)
			return lock + ":" + of, err
		})
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if lock == Lease {
		all = append(all, s.waiters[queue]...)
	}
	return all, err
}

// endPeer ends what a peer has: its connection, or its lease.
func (s *Service) endPeer(ctx context.Context, lock, of string) error {
	return s.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if lock == Advisory {
			_, err = conn.Exec(ctx, "select pg_terminate_backend($1::text::integer)", strings.TrimSpace(of))
		} else {
			_, err = conn.Exec(ctx, "update robustness.lease set until = '-infinity', owner = null where owner = $1", of)
		}
		return err
	})
}

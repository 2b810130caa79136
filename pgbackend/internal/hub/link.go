package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// How often states are read. Notices report changes at once where LISTEN works.
const (
	recheck = 10 * time.Second       // of an armed watch, in case a notice was lost
	near    = 50 * time.Millisecond  // without notices: of what may soon change
	far     = 500 * time.Millisecond // without notices: of the rest
)

// nearAhead is how many entries are ahead of an entry that may soon change, at most.
const nearAhead = 3

// patience bounds each request of the hub: one that is not answered costs the connection.
const patience = 5 * time.Second

// seldom is how many ticks pass between two looks of a session that holds and does not wait: those
// that wait behind it and are over delay no grant.
const seldom = 8

// renewed is how often the rows in table watcher are renewed. They are removed after a minute without.
const renewed = 20 * time.Second

// retry is how soon a row in table watcher that could not be made is tried again.
const retry = 200 * time.Millisecond

// link is one connection of a hub. It belongs to run.
type link struct {
	h     *Hub
	conn  *pgx.Conn
	polls bool                      // notifications do not arrive
	until driver.Instant            // when a link that polls tries again whether they do; 0 for never
	heard map[string]struct{}       // the channels that are listened to
	rows  map[string]driver.Instant // when the rows in table watcher were renewed, by stored queue
	blind bool                      // the login may not write table watcher
	later driver.Instant            // no row is made before that: the last attempt has failed
	noted string                    // the channel of the newest notification
}

// again is how long a link polls before it tries whether notifications arrive now.
const again = 5 * time.Minute

// open connects, and finds out whether notifications arrive.
//
// A connection whose server process has the number that the server gave at login has no pooler in
// between: there LISTEN works, however late a notification comes. Otherwise only a notification
// that arrives shows it, within a second: a pooler accepts LISTEN in every mode. Another connection
// must send it. A pooler that lends connections for a transaction passes on what comes during one:
// a notification to oneself would arrive.
func (l *link) open(ctx context.Context) error {
	ctx, stop := driver.WithTimeout(ctx, l.h.Clock, 2*patience)
	defer stop()
	conn, err := l.h.Dial(ctx, func(n *pgconn.Notification) {
		l.noted = n.Channel
		l.h.notice(n)
	})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	l.conn = conn
	if l.h.Poll {
		l.polls = true
		return nil
	}
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if pid == conn.PgConn().PID() {
		return nil
	}
	return l.probe(ctx)
}

// probe finds out whether a notification arrives through a pooler.
func (l *link) probe(ctx context.Context) error {
	channel := layout.Channel(l.h.Secret, fmt.Sprintf("probe %p %d", l, l.h.Clock.Now()))
	if _, err := l.conn.Exec(ctx, "listen "+channel, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := l.h.Notify(ctx, channel); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	wait, stop := driver.WithTimeout(ctx, l.h.Clock, time.Second)
	defer stop()
	for l.noted != channel {
		if err := l.conn.PgConn().WaitForNotification(wait); err != nil && wait.Err() == nil {
			return fmt.Errorf("listen: %w", err)
		}
		if wait.Err() != nil {
			break
		}
	}
	if l.noted == channel {
		_, err := l.conn.Exec(ctx, "unlisten "+channel, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	l.polls = true
	l.until = l.h.Clock.Now().Add(again)
	if !l.h.told {
		l.h.told = true
		l.h.Logger.WarnContext(ctx, "postgres: notifications do not arrive, so the first waiters of each queue poll: "+
			"a pooler is between; give Options.Listen an address without one")
	}
	// The server's connection may listen on: the pooler lends it to others.
	_, err := l.conn.Exec(ctx, "unlisten *", pgx.QueryExecModeSimpleProtocol)
	return err
}

// errAgain ends a link that polls, so that the next one tries whether notifications arrive.
var errAgain = errors.New("notifications are tried again")

// serve does what is due until the connection breaks or the hub is stopped.
func (l *link) serve(ctx context.Context) error {
	for ctx.Err() == nil {
		if l.until != 0 && l.h.Clock.Now() >= l.until {
			return errAgain
		}
		todo := l.plan()
		if todo.empty() {
			if err := l.wait(ctx, todo.next); err != nil {
				return err
			}
			continue
		}
		if err := l.do(ctx, todo); err != nil {
			return err
		}
	}
	return nil
}

// wait returns when a watch has begun, or after d. A notification ends it not: a notice is taken in as
// it arrives, and makes nothing due that a plan, which looks at all watches, would find.
func (l *link) wait(ctx context.Context, d time.Duration) error {
	ctx, stop := driver.WithTimeout(ctx, l.h.Clock, d)
	defer stop()
	l.h.mu.Lock()
	l.h.kick = stop
	woken := l.h.woken
	l.h.mu.Unlock()
	defer func() {
		l.h.mu.Lock()
		defer l.h.mu.Unlock()
		l.h.kick = nil
	}()
	if woken {
		return nil // by a watch that began after plan, and has not found kick
	}
	if l.polls {
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil && !l.conn.IsClosed() {
		if err := l.conn.PgConn().WaitForNotification(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for notifications: %w", err)
		}
	}
	if l.conn.IsClosed() {
		return errors.New("the connection broke")
	}
	return nil
}

// todo is what one round of a link does, in this order.
type todo struct {
	unlisten, listen []string
	rows             []string // stored queues whose rows in table watcher are to be made or renewed
	states           []*watch
	queues           []string // stored queues whose sessions are to be observed
	next             time.Duration
}

func (t *todo) empty() bool {
	return len(t.listen) == 0 && len(t.rows) == 0 && len(t.states) == 0 && len(t.queues) == 0
}

// plan returns what is due now. Each round decides anew from all watches, so nothing that became due
// while the last round was under way is lost: wake only makes the next plan come earlier.
//
//	the watch                                         is read
//	new, or due again                                 now
//	new, and its row in table watcher is missing      when that is there: before, a change is not notified
//	armed, due again, and changes are notified        with the next look at the sessions, in the same request
//	not due                                           later, and the round waits no longer than that
//
// The sessions are looked at once in a tick, and earlier when one of them can be over. A session that
// waits for nothing looks at them every seldom ticks. h.observed is 0 after a lost connection and after
// an end: then the look is due at once.
//
// A channel that no watch needs any more costs only notices that are thrown away. So it is left in the next
// request that listens, unless there are many: no hand-off waits for an UNLISTEN.
func (l *link) plan() todo {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.woken = false
	now := h.Clock.Now()
	t := todo{next: recheck}
	until := func(at driver.Instant) { t.next = min(t.next, max(at.Sub(now), time.Millisecond)) }
	var again []*watch
	queues := map[string]struct{}{}
	tick := h.Tick * seldom
	rows := map[string]struct{}{}
	for channel, all := range h.channels {
		if _, ok := l.heard[channel]; !ok && !l.polls {
			t.listen = append(t.listen, channel)
		}
		for w := range all {
			own := h.own[w.queue]
			if w.target.Kind == driver.OfHolders && len(own) > 0 {
				w.place = own[len(own)-1] // what is ahead of it may be marked and go between two looks
			}
			_, noted := l.rows[w.queue]
			noting := w.remote && !l.polls && !l.blind
			switch {
			case w.due > now:
				until(w.due)
			case noting && !noted && now < l.later:
				until(l.later) // no state counts before the row is there
			case w.armed && !l.reads(w):
				again = append(again, w) // with the next look at the sessions
			default:
				t.states = append(t.states, w)
			}
			queues[w.queue] = struct{}{}
			if w.target.Kind != driver.OfEntry || w.session != h.Session {
				tick = h.Tick // the session waits
			}
			if noting {
				rows[w.queue] = struct{}{}
			}
		}
	}
	l.planRows(&t, now, rows, until)
	if len(queues) > 0 {
		look := h.observed.Add(tick)
		left, due := h.leases.Next(now)
		if due && !h.ending && h.observed != 0 {
			look = min(look, max(now.Add(left), h.observed.Add(h.Tick/8), h.endFrom))
		}
		if h.observed == 0 || look <= now {
			for q := range queues {
				t.queues = append(t.queues, q)
			}
			t.states = append(t.states, again...)
		} else {
			until(look)
		}
	}
	if l.polls {
		t.states = l.withOwn(t.states)
	}
	if len(t.listen) > 0 || len(l.heard) > len(h.channels)+64 {
		for channel := range l.heard {
			if _, ok := h.channels[channel]; !ok {
				t.unlisten = append(t.unlisten, channel)
			}
		}
	}
	return t
}

// planRows adds the rows in table watcher that are to be made or renewed. With the hub's mutex.
func (l *link) planRows(t *todo, now driver.Instant, rows map[string]struct{}, until func(driver.Instant)) {
	for q := range rows {
		at, ok := l.rows[q]
		next := max(l.later, at.Add(renewed))
		if !ok {
			next = l.later
		}
		if next <= now {
			t.rows = append(t.rows, q)
		} else {
			until(next)
		}
	}
	for q := range l.rows {
		if _, ok := rows[q]; !ok {
			delete(l.rows, q)
		}
	}
}

// do does what is due, in the order of todo. LISTEN and the row in table watcher are committed before
// the states are read: a change that a state does not show yet is notified. An error costs the
// connection, and the next one begins anew with all watches.
func (l *link) do(ctx context.Context, t todo) error {
	ctx, stop := driver.WithTimeout(ctx, l.h.Clock, patience)
	defer stop()
	if err := l.listen(ctx, t); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	noted, err := l.note(ctx, t.rows)
	if err != nil {
		return fmt.Errorf("write table watcher: %w", err)
	}
	if !noted {
		t.states = slices.DeleteFunc(t.states, func(w *watch) bool { return slices.Contains(t.rows, w.queue) })
	}
	if len(t.states) == 0 && len(t.queues) == 0 {
		return nil
	}
	var states []state
	var sights []observed.Sight
	err = call.Batch(ctx, l.conn, false, func(b *pgx.Batch) {
		if len(t.states) > 0 {
			b.Queue(l.h.Texts.States, stateArgs(t.states, l.h.Floor)...)
		}
		if len(t.queues) > 0 {
			b.Queue(l.h.Texts.Observe, t.queues, l.floors(t.queues))
		}
	}, func(r pgx.BatchResults) error {
		var err error
		if len(t.states) > 0 {
			states, err = scanStates(r)
		}
		if err == nil && len(t.queues) > 0 {
			sights, err = ScanSights(r)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	received := l.h.Clock.Now()
	if len(t.states) > 0 && !l.apply(received, t.states, states) {
		l.h.Over()
		return nil
	}
	if len(t.queues) > 0 {
		l.h.observe(received, sights)
	}
	return nil
}

func (l *link) floors(queues []string) []int64 {
	floors := make([]int64, len(queues))
	for i, q := range queues {
		floors[i] = l.h.Floor(q)
	}
	return floors
}

// listen begins to listen before any state is read, in a transaction of its own: what is
// committed after its answer is notified.
func (l *link) listen(ctx context.Context, t todo) error {
	if len(t.listen) == 0 && len(t.unlisten) == 0 {
		return nil
	}
	var sql strings.Builder
	for _, c := range t.unlisten {
		sql.WriteString("unlisten " + c + ";")
	}
	for _, c := range t.listen {
		sql.WriteString("listen " + c + ";")
	}
	if _, err := l.conn.Exec(ctx, sql.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	for _, c := range t.unlisten {
		delete(l.heard, c)
	}
	for _, c := range t.listen {
		l.heard[c] = struct{}{}
	}
	return nil
}

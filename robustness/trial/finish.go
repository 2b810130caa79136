package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// finish ends what has not ended, sees that nothing is left, and closes the
// clients. It returns what was recorded.
func (st *stage) finish(ctx context.Context) {
	st.heal()
	for _, p := range st.players {
		if p != nil {
			p.let()
		}
	}
	st.stop(ctx)
	if st.ended(ctx) {
		st.empty(ctx)
	}
	order := st.order(ctx) // with what is left, which goes with its sessions
	st.close()
	st.collect(order)
}

func (st *stage) heal() {
	for _, p := range st.players {
		if p != nil {
			p.c.Heal()
		}
	}
}

// stop ends the process.
func (st *stage) stop(ctx context.Context) {
	if st.process == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if a, err := st.process.Stop(ctx); err != nil {
		st.miss("the process did not end: %v", err)
	} else {
		a.Stopped = true
		st.record = &a
	}
}

// ended waits until every player is gone; who still waits is called back.
func (st *stage) ended(ctx context.Context) bool {
	for _, p := range st.players {
		if p == nil || !p.started() || isClosed(p.gone) {
			continue
		}
		p.end()
		if !await(ctx, p.gone, patience) {
			st.violated("S6", fmt.Sprintf("client %d has not returned %s after its context ended, with a network that is well", p.id, patience))
			return false
		}
	}
	return true
}

// empty looks whether anything is left in the line (S5), while all sessions are
// there.
func (st *stage) empty(ctx context.Context) {
	began := Now()
	var line []string
	err := untilSeen(ctx, remains, func(ctx context.Context) (bool, error) {
		now, err := st.svc.Entries(ctx, st.lock, st.line.Name)
		if err == nil {
			line = now
		}
		return err == nil && len(now) == 0, err
	})
	if err != nil && len(line) > 0 {
		st.violated("S5", fmt.Sprintf("%d entries are left %s after everybody has ended: %q", len(line), time.Duration(Now()-began), line))
	} else if err != nil {
		st.void("the line could not be looked at: %v", err)
	}
}

// close closes all clients.
func (st *stage) close() {
	var wg sync.WaitGroup
	for _, p := range st.players {
		if p != nil {
			wg.Go(func() { _ = p.c.Close() }) // its session may be over, or its requests unanswered
		}
	}
	wg.Wait()
	for _, p := range st.players {
		if p != nil && p.started() {
			<-p.gone // a closed client answers
		}
	}
}

// order is what has happened to the line at the store.
func (st *stage) order(ctx context.Context) []history.Change {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	order, err := st.svc.Order(ctx, st.lock, st.line.Name)
	if err != nil {
		st.void("no order of the store's: %v", err)
	}
	return order
}

// collect takes in the records, when everybody is gone.
func (st *stage) collect(order []history.Change) {
	h := &History{Lines: []history.Queue{st.line}, Order: map[string][]history.Change{st.line.Name: order}}
	for _, p := range st.players {
		if p != nil && p.started() {
			h.Attempts = append(h.Attempts, p.attempts()...)
		}
	}
	if st.record != nil {
		h.Attempts = append(h.Attempts, *st.record)
	}
	st.History = h
	st.Clients = len(st.players)
	st.count(h.Attempts)
}

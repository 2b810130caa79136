package designs

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// Measured is in what order a design grants, and what that costs. The waiters are programs of their own, which
// request the lock one after another, while another program holds.
type Measured struct {
	Stand, Design string
	Waiters       int
	Rounds        int
	Grants        int
	Overtaken     int           // grants to a waiter while one that had asked before it waited
	Worst         int           // the most waiters that went ahead of one that had asked before
	Idle          float64       // requests of a waiter in a second in which nothing happens
	Woken         float64       // waiters that send something in the moment after a release, on average
	PerGrant      float64       // requests of all programs for each grant, from the first release to the last grant
	HandOver      time.Duration // median, from a release to the next grant
	Slowest       time.Duration
}

// String returns the figures for a log.
func (m *Measured) String() string {
	return fmt.Sprintf("%d of %d grants overtook (at most %d), %.1f requests/s of a waiter, %.1f woken, %.1f requests per grant, hand-over %s (at most %s)",
		m.Overtaken, m.Grants, m.Worst, m.Idle, m.Woken, m.PerGrant, m.HandOver.Round(100*time.Microsecond), m.Slowest.Round(time.Millisecond))
}

const (
	waiters  = 10
	rounds   = 3
	idleTime = time.Second
)

// Measure measures a design on a stand that nothing else uses.
func Measure(ctx context.Context, s Stand, d *Design) (*Measured, error) {
	m := &Measured{Stand: s.Name(), Design: d.Name, Waiters: waiters, Rounds: rounds}
	clients := make([]trial.Client, waiters+1)
	defer func() {
		for _, c := range clients {
			if c != nil {
				_ = c.Close() // it is measured
			}
		}
	}()
	for i := range clients {
		var err error
		clients[i], err = s.Open(ctx, d, patience)
		if err != nil {
			return nil, fmt.Errorf("designs: measure %s: %w", d.Name, err)
		}
	}
	var all []time.Duration
	pulse := metronome.Start()
	defer pulse.Stop()
	for done, tried := 0, 0; done < rounds; tried++ {
		began, before := time.Now(), *m
		hands, err := m.round(ctx, clients, tried)
		if err != nil {
			return nil, fmt.Errorf("designs: measure %s: %w", d.Name, err)
		}
		_, longest := pulse.Between(began, time.Now())
		if longest > longestStall && tried < 3*rounds { // a session may have been lost, with its place
			*m = before
			continue
		}
		all = append(all, hands...)
		done++
	}
	m.Idle /= float64(rounds * waiters)
	m.Woken /= rounds
	m.PerGrant /= float64(m.Grants)
	slices.Sort(all)
	m.HandOver, m.Slowest = all[len(all)/2], all[len(all)-1]
	return m, nil
}

// acquire tries until it is granted, as a program does: on a busy machine a request may get no answer in time.
func acquire(ctx context.Context, c trial.Client, queue history.Queue) (trial.Hold, error) {
	for {
		h, err := c.Acquire(ctx, queue, trial.Request{Weight: 1})
		if err == nil || ctx.Err() != nil {
			return h, err
		}
		lockWait(ctx, lock.Pause)
	}
}

// sent returns how many requests each client has sent.
func sent(clients []trial.Client) (all []int64) {
	for _, c := range clients {
		all = append(all, c.Traffic().Requests)
	}
	return all
}

// round has all waiters wait behind the first client, and then hold one after another.
func (m *Measured) round(ctx context.Context, clients []trial.Client, n int) (hands []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, longStart)
	defer cancel()
	queue := history.Queue{Name: fmt.Sprintf("measure-%s-%d", hashOf(m.Design), n), Recipe: history.Mutex}
	first, err := acquire(ctx, clients[0], queue)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	released := trial.Now()
	granted := make(chan struct{}, waiters)
	for i, c := range clients[1:] {
		wg.Go(func() {
			h, acquireErr := acquire(ctx, c, queue)
			mu.Lock()
			if acquireErr != nil {
				err = acquireErr
				mu.Unlock()
				return
			}
			order = append(order, i)
			hands = append(hands, time.Duration(trial.Now()-released))
			mu.Unlock()
			granted <- struct{}{}
			lockWait(ctx, workTime)
			mu.Lock()
			released = trial.Now()
			mu.Unlock()
			_, _ = h.Release(ctx) // the next one would not be granted
		})
		lockWait(ctx, settle) // it has joined a queue by then
	}
	before := sent(clients[1:])
	lockWait(ctx, idleTime)
	after := sent(clients[1:])
	all := sent(clients)
	mu.Lock()
	released = trial.Now()
	mu.Unlock()
	_, releaseErr := first.Release(ctx)
	select {
	case <-granted:
	case <-ctx.Done():
	}
	lockWait(ctx, workTime/2)
	woken := sent(clients[1:])
	wg.Wait()
	end := sent(clients)
	for i := range before {
		m.Idle += float64(after[i]-before[i]) / idleTime.Seconds()
		if woken[i] > after[i] {
			m.Woken++
		}
	}
	for i := range all {
		m.PerGrant += float64(end[i] - all[i])
	}
	m.Grants += len(order)
	m.order(order)
	if err == nil {
		err = releaseErr
	}
	if err == nil && len(order) < waiters {
		err = fmt.Errorf("%d of %d waiters were granted", len(order), waiters)
	}
	return hands, err
}

// order counts the grants that went ahead of waiters which had asked before.
func (m *Measured) order(granted []int) {
	for at, i := range granted {
		earlier := 0
		for _, later := range granted[at+1:] {
			if later < i {
				earlier++
			}
		}
		if earlier > 0 {
			m.Overtaken++
		}
		ahead := 0
		for _, before := range granted[:at] {
			if before > i {
				ahead++
			}
		}
		m.Worst = max(m.Worst, ahead)
	}
}

// hashOf returns a name of a design that every store takes.
func hashOf(design string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(design)) // never fails
	return fmt.Sprintf("%x", h.Sum32())
}

package both

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// ForeignRecords are what other clients write next to the queues of a service.
type ForeignRecords struct {
	// Put writes a record of a queue.
	Put func(t testing.TB, queue, record, value string)

	// Detail tries to write the detail of a candidate's entry.
	Detail func(t testing.TB, candidate driver.Ref, value string)

	// Limits are limits that no semaphore has. Limit writes one of them for a queue.
	Limits []string
	Limit  func(t testing.TB, queue, limit string)

	// Slots are names that no slot has. SlotValues and Ledgers are values of records, in
	// addition to [Values].
	Slots, SlotValues, Ledgers []string

	// Taken reports that a record of slot 0 takes that slot, whatever its value is.
	Taken bool

	// MostBytes is the length of the longest value.
	MostBytes int
}

// foreignRecords has another client write records of the queues.
func foreignRecords(t *testing.T, s Service) {
	b := s.ForeignRecords(t)
	one, two := s.Client(t, recipetest.EventTTL), s.Client(t, recipetest.EventTTL)
	t.Run("limits", func(t *testing.T) { b.limits(t, one, two) })
	t.Run("slots", func(t *testing.T) { b.slots(t, one) })
	t.Run("ledgers", func(t *testing.T) { b.ledgers(t, one, two) })
	t.Run("details", func(t *testing.T) { b.details(t, one, two) })
	one.Kept(t)
	two.Kept(t)
}

// limits: a waiter and new calls return the error of a limit that cannot be read, and a
// holder goes on.
func (b ForeignRecords) limits(t *testing.T, one, two *recipetest.Client) {
	for i, limit := range b.Limits {
		name := fmt.Sprint("limit", i)
		sem := semaphore.New(one.Session, name, 2)
		h, err := sem.Acquire(recipetest.Bounded(t), 2)
		require.NoError(t, err)
		waiter := two.BeginWith(func() (*session.Hold, error) {
			return semaphore.New(two.Session, name, 2).Acquire(recipetest.Bounded(t), 2)
		})
		one.Queued(t, name, 2)
		b.Limit(t, name, limit)
		recipetest.Wait(t, waiter.Done, "the end of the wait, by an event")
		_, aerr := sem.Acquire(recipetest.Bounded(t), 1)
		_, ferr := semaphore.NewWith(two.Session, name, 2, semaphore.Options{Follow: true}).Acquire(recipetest.Bounded(t), 1)
		_, lerr := sem.Limit(recipetest.Bounded(t))
		errs := map[string]error{"waiter": waiter.Err, "acquire": aerr, "follow": ferr, "limit": lerr}
		for what, err := range errs {
			require.ErrorIs(t, err, session.ErrRefused, what)
			assert.Less(t, len(err.Error()), 500, what)
			assert.ErrorContains(t, err, `"limit" of queue "`+name+`"`, what)
		}
		assert.NoError(t, context.Cause(h.Context()), "the holder goes on")
		recipetest.Unlock(t, h)
		require.NoError(t, sem.Resize(recipetest.Bounded(t), 2))
		h, err = sem.Acquire(recipetest.Bounded(t), 2)
		require.NoError(t, err)
		recipetest.Unlock(t, h)
	}
}

// slots: a record of a slot with a foreign value counts as another hold's, or not at all.
func (b ForeignRecords) slots(t *testing.T, c *recipetest.Client) {
	for i, value := range append(Values(b.MostBytes), b.SlotValues...) {
		name := fmt.Sprint("slot", i)
		sem := semaphore.NewWith(c.Session, name, 3, semaphore.Options{Slots: true})
		for _, slot := range append([]string{"0"}, b.Slots...) {
			b.Put(t, name, "slot/"+slot, value)
		}
		h, err := sem.Acquire(recipetest.Bounded(t), 1)
		require.NoError(t, err, "%.40q", value)
		h2, err := sem.Acquire(recipetest.Bounded(t), 1)
		require.NoError(t, err, "%.40q", value)
		assert.NotEqual(t, h.Slot(), h2.Slot())
		assert.GreaterOrEqual(t, min(h.Slot(), h2.Slot()), 0)
		if b.Taken {
			assert.Equal(t, []int{1, 2}, []int{h.Slot(), h2.Slot()}, "%.40q", value)
		}
		recipetest.Unlock(t, h)
		recipetest.Unlock(t, h2)
	}
}

// details: only its owner describes a candidate.
func (b ForeignRecords) details(t *testing.T, one, two *recipetest.Client) {
	for i, value := range Values(b.MostBytes) {
		name := fmt.Sprint("detail", i)
		h, err := election.New(one.Session, name).Campaign(recipetest.Bounded(t), "me")
		require.NoError(t, err)
		b.Detail(t, recipetest.Refs(h)[0], value)
		l, err := election.New(two.Session, name).Leader(recipetest.Bounded(t))
		require.NoError(t, err)
		assert.Equal(t, "me", l.Value)
		_, err = two.Queue(recipetest.Bounded(t), name)
		require.NoError(t, err)
		recipetest.Unlock(t, h)
	}
}

// ledgers: a name that no client has counts as that of a holder that died. After a release
// the ledger is clean.
func (b ForeignRecords) ledgers(t *testing.T, one, two *recipetest.Client) {
	for i, value := range append(Values(b.MostBytes), b.Ledgers...) {
		name := fmt.Sprint("ledger", i)
		acquire := func(c *recipetest.Client) *session.Hold {
			h, err := mutex.NewWith(c.Session, name, mutex.Options{Robust: true}).Lock(recipetest.Bounded(t))
			require.NoError(t, err, "%.40q", value)
			return h
		}
		b.Put(t, name, "ledger", value)
		recipetest.Unlock(t, acquire(one))
		h := acquire(two)
		assert.Equal(t, engine.PastClean, recipetest.Previous(h), "after a hold that was released: %.40q", value)
		recipetest.Unlock(t, h)
	}
}

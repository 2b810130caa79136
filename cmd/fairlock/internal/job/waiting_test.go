package job

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
)

func TestInAnOutageTheLastReadOfTheQueueIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		s, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		c.Cut(fault.Requests)
		before := queueView{of: 7}
		began := time.Now()

		assert.Equal(t, before, readQueue(t.Context(), s, "a", before))

		assert.Equal(t, readTimeout, time.Since(began))
		c.Heal()
		require.NoError(t, s.Close())
	})
}

// The new place can come before the reason of the rejoin is printed.
func TestTheReasonOfARejoinIsTakenOnce(t *testing.T) {
	r := &reporter{changed: make(chan struct{}, 1)}
	r.setPlace(place{rejoined: io.EOF})
	r.setPlace(place{joined: true, ahead: 2})

	assert.Equal(t, place{joined: true, ahead: 2, rejoined: io.EOF}, r.takePlace())
	assert.Equal(t, place{joined: true, ahead: 2}, r.takePlace())
}

// A leader campaigns again, and has no place until it has joined the queue.
func TestANewRequestDoesNotShowThePlaceOfTheOneBefore(t *testing.T) {
	r := &reporter{changed: make(chan struct{}, 1)}
	r.setPlace(place{joined: true, ahead: 2})

	r.forgetPlace()

	assert.Empty(t, r.changed)
	assert.Equal(t, place{}, r.takePlace())
}

package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// A term may end while a look is taken in. The race detector sees what the test
// does not.
func TestAPlaceIsLostWhileItMoves(t *testing.T) {
	told := make(chan session.Event, 1)
	s, err := membackend.New().NewClient().Open(t.Context(), &session.Options{Hooks: session.Hooks{
		Rejoined: func(_ context.Context, e session.Event) { told <- e },
	}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	term, err := termOf(t.Context(), s)
	require.NoError(t, err)
	ln := engineOf(term).open("orders")
	defer ln.close()
	_, hooks := Core().Start(t.Context(), s, door.Start{Name: "orders", Kind: "mutex"})
	turn := hooks.Joined(term.Term, 7, 2)
	st := &seat{ln: ln, entry: driver.Entry{Token: 7}, hooks: place{hooks, turn, 0}, count: 2}

	var looks sync.WaitGroup
	looks.Go(func() { ln.do(func() { ln.position(st, 1) }) })
	require.ErrorIs(t, st.rejoin(errPlaceLost), errPlaceLost)
	looks.Wait()

	event := <-told
	assert.Contains(t, []int{1, 2}, event.Ahead)
	event.Ahead, event.At, event.Waited = 0, time.Time{}, 0
	assert.Equal(t, session.Event{
		ID: 1, Name: "orders", Kind: "mutex", Mode: session.Exclusive, Session: term.Driver().ID(), Token: 7, Err: errPlaceLost,
	}, event)
}

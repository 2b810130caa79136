package queue

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// A term may end while a look is taken in. The race detector sees what the test
// does not.
func TestAPlaceIsLostWhileItMoves(t *testing.T) {
	told := make(chan session.Event, 1)
	s, err := membackend.New().NewClient().Open(t.Context(), &session.Options{Hooks: session.Hooks{
		Rejoined: func(e session.Event) { told <- e },
	}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	term, err := termOf(t.Context(), s)
	require.NoError(t, err)
	ln := engineOf(term).open("orders")
	defer ln.close()
	st := &seat{ln: ln, entry: driver.Entry{Token: 7}, kind: "mutex", count: 2}

	var looks sync.WaitGroup
	looks.Go(func() { ln.do(func() { ln.position(st, 1) }) })
	require.ErrorIs(t, st.rejoin(errPlaceLost), errPlaceLost)
	looks.Wait()

	event := <-told
	assert.Contains(t, []int{1, 2}, event.Ahead)
	event.Ahead = 0
	assert.Equal(t, session.Event{
		Name: "orders", Kind: "mutex", Session: term.Driver().ID(), Token: 7, Err: errPlaceLost,
	}, event)
}

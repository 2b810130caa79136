package zookeeper

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// TestAYieldRequestWithdrawnDuringAReadIsNotReturned withdraws the request after the queue
// was read and before its node is. A reader that returned it without the data of the node
// would show a request that no client has made.
func TestAYieldRequestWithdrawnDuringAReadIsNotReturned(t *testing.T) {
	e, root := shared(t)
	admin := e.Client(t)
	sender := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	withdraw, err := yield.Send(recipetest.Bounded(t), sender.Session, "x", "hotfix")
	require.NoError(t, err)
	w := &wire{reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
		if request.Op() == zkframe.OpGetChildren2 && strings.Contains(request.Path(), "/asks/queue") && withdraw != nil {
			if err := withdraw(); !errors.Is(err, session.ErrReleasePending) { // pending on a machine that stands still
				assert.NoError(t, err)
			}
			awaitEntries(t, admin, request.Path(), 0)
			withdraw = nil
		}
		return f, true
	}}
	reader := newClient(t, root, recipetest.CalmTTL)
	reader.opts.Dial = w.dial
	reader.open(t, e.Endpoints()...)

	asks, err := yield.List(recipetest.Bounded(t), reader.Session, "x")

	require.NoError(t, err)
	assert.Nil(t, withdraw, "the queue of requests was read")
	assert.Empty(t, asks)
}

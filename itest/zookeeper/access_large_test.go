package zookeeper

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zktest"
)

// TestARequestThatIsTooLongForTheServersIsRefused: a server answers it by closing
// the connection, which all locks of the session share.
func TestARequestThatIsTooLongForTheServersIsRefused(t *testing.T) {
	t.Parallel()
	const most = 3 // connections that one request may end
	e := zktest.New(t, &zktest.Options{Properties: map[string]string{"jute.maxbuffer": "100000"}})
	w := &wire{}
	p := newClient(t, "/fairlock", recipetest.CalmTTL)
	p.opts.Dial = w.dial
	p.open(t, e.Servers()...)
	server := e.Servers()[0]
	other := p.Lock(t, "other")
	el := election.New(p.Session, "x")
	long := strings.Repeat("v", 200_000)

	before := w.connections(server)
	_, err := el.Campaign(recipetest.Bounded(t), long)
	require.ErrorIs(t, err, session.ErrRefused)
	assert.ErrorContains(t, err, "jute.maxbuffer")
	assert.ErrorContains(t, err, "a request of 200", "its size")
	assert.LessOrEqual(t, w.connections(server)-before, most)

	h, err := el.Campaign(recipetest.Bounded(t), "short")
	require.NoError(t, err)
	before = w.connections(server)
	err = el.Proclaim(recipetest.Bounded(t), h, long)
	require.ErrorIs(t, err, session.ErrRefused)
	assert.ErrorContains(t, err, "jute.maxbuffer")
	assert.LessOrEqual(t, w.connections(server)-before, most)

	require.NoError(t, other.Context().Err(), "the other locks are still held")
	recipetest.Unlock(t, other)
	recipetest.Unlock(t, h)
	assert.Empty(t, entriesBelow(t, e.Conn(t), "/fairlock"))
	p.Kept(t)
}

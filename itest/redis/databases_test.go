package redis

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
)

// The databases of a server share its channels, and the same root in two of them can have queues of one name:
// a notice about one would be taken for the other.
func TestNoticesOfOneDatabaseAreNotForAnother(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	for database := range 2 {
		option := oneOption(server)
		option.SelectDB = database
		require.NoError(t, redisbackend.Init(hang.Context(t), option, nil))
		s, err := redisbackend.Open(hang.Context(t), option, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() }) // where the test has not come to its end
		h, err := mutex.New(s, "x").Lock(hang.Context(t))
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			h, err := mutex.New(s, "x").Lock(hang.Context(t))
			if err == nil {
				err = h.Unlock()
			}
			got <- err
		}()
		channels := func() []string {
			all, err := server.Do(hang.Context(t), "PUBSUB", "CHANNELS", "{fairlock}:c*").AsStrSlice()
			require.NoError(t, err)
			return all
		}
		hang.Until(t, func() bool { return len(channels()) > 0 }, "the session subscribes")
		want := map[int]string{0: "{fairlock}:c:", 1: "{fairlock}:c1:"}[database]
		for _, c := range channels() {
			assert.Contains(t, c, want)
		}
		recipetest.Unlock(t, h)
		require.NoError(t, <-got)
		require.NoError(t, s.Close())
		hang.Until(t, func() bool { return len(channels()) == 0 }, "the session's connection ends")
	}
}

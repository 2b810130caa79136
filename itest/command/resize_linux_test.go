package command

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/semaphore"
)

// The error shows the command that changes the limit, and that command works.
func TestALimitMismatchShowsHowToResize(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		assert.Equal(t, result{}, execute(t, url, "run", "--permits", "1", "gpu", "--", "true"))
		assert.Equal(t, result{
			code: 64,
			stderr: "fairlock: gpu: its limit is 1, not 2: use --permits 1, or change it for all users: fairlock resize gpu 2\n" +
				"Run 'fairlock run --help' for usage.\n",
		}, execute(t, url, "run", "--permits", "2", "gpu", "--", "true"))
		s := openSession(t, url, "")
		first := begin(t, url, "run", "--permits", "1", "gpu", "--", "sleep", "1000")
		hasEntries(t, s, "gpu", 1)
		second := begin(t, url, "run", "--permits", "1", "gpu", "--", "true")
		hasEntries(t, s, "gpu", 2)

		got := execute(t, url, "resize", "gpu", "2")

		assert.Equal(t, result{stderr: "gpu: limit 2, before 1\n"}, got)
		assert.Equal(t, 0, second.code(t), second.err.String())
		select {
		case <-first.done:
			t.Error("it ended a hold")
		default:
		}
		limit, err := semaphore.New(s, "gpu", 2).Limit(hang.Context(t))
		assert.NoError(t, err)
		assert.Equal(t, int64(2), limit)

		got = execute(t, url, "resize", "gup", "2")
		assert.Equal(t, 1, got.code)
		assert.Equal(t, "fairlock: \"gup\" is no semaphore that was ever used: the first run --permits sets how many\n", got.stderr)
		limit, err = semaphore.New(s, "gup", 2).Limit(hang.Context(t))
		assert.NoError(t, err)
		assert.Zero(t, limit)
	})
}

package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a session that is closed at the end of the test.
func open(t *testing.T, c interface {
	Open(ctx context.Context, o *session.Options) (*session.Session, error)
}, o *session.Options,
) *session.Session {
	t.Helper()
	s, err := c.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// A program that was started under a lock names it in all its entries, so that tools show which process waits for which.
func TestEntriesNameTheHoldsOfTheParentProcessFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, membackend.New(), &session.Options{Holds: []string{"parent's"}})
		err := mutex.New(s, "n").Do(t.Context(), func(ctx context.Context, _ *session.Hold) error {
			return mutex.New(s, "other").Do(ctx, func(ctx context.Context, _ *session.Hold) error {
				entries, err := s.Queue(ctx, "other")
				require.NoError(t, err)
				detail := session.Engine(door.Key{}).Detail(entries[0])
				assert.Equal(t, []string{"parent's", "n"}, owner.MetaOf(&detail).Holds)
				return nil
			})
		})
		require.NoError(t, err)
	})
}

func TestWorkThatReturnsNilHidesNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		err := mutex.New(open(t, st, nil), "n").Do(t.Context(), func(ctx context.Context, _ *session.Hold) error {
			st.Delete("n", memtest.Entries(st, "n")[0].Key)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, session.ErrLost)
	})
}

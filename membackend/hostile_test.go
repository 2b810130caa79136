package membackend_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// TestWhatEntriesSayAdmitsNobody has a stranger stand between two requests of each
// recipe, and somebody overwrite what every entry says of itself.
func TestWhatEntriesSayAdmitsNobody(t *testing.T) {
	takers := map[string]func(context.Context, *session.Session) (*session.Hold, error){
		"mutex": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return mutex.New(s, "x").Lock(ctx)
		},
		"write": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return rwlock.New(s, "x").Lock(ctx)
		},
		"read": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return rwlock.New(s, "x").RLock(ctx)
		},
		"acquire": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return semaphore.New(s, "x", 3).Acquire(ctx, 1)
		},
		"campaign": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return election.New(s, "x").Campaign(ctx, "me")
		},
		"all": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return mutex.LockAll(ctx, mutex.New(s, "x"), mutex.New(s, "y"))
		},
	}
	for name, take := range takers {
		for _, value := range []string{
			"", "null", "\xff\xfe", "NaN", "1e99", strings.Repeat("[", 1<<20), strings.Repeat("x", 10<<20), `{"v":99,"weight":-1}`,
			`{"v":1,"admitted":true,"shared":true,"token":9223372036854775807}`, `{"v":1,"since":-99999999999999999999}`,
		} {
			synctest.Test(t, func(t *testing.T) {
				st := membackend.New()
				s, err := st.Open(t.Context(), nil)
				require.NoError(t, err)
				defer func() { assert.NoError(t, s.Close()) }()
				first, err := take(t.Context(), s)
				require.NoError(t, err)
				ref, ok := memtest.PutForeign(st, "x", "stranger", true)
				require.True(t, ok)
				granted := make(chan *session.Hold, 1)
				go func() { // ends with the grant
					h, err := take(t.Context(), s)
					assert.NoError(t, err)
					granted <- h
				}()
				synctest.Wait()
				for _, e := range memtest.Entries(st, "x") {
					require.True(t, memtest.Overwrite(st, "x", e.Key, []byte(value)))
				}
				line, err := mutex.New(s, "x").Queue(t.Context())
				require.NoError(t, err)
				require.Len(t, line, 3)
				require.NoError(t, first.Unlock())
				synctest.Wait()
				select {
				case <-granted:
					require.Fail(t, "granted", "%s, %.40q", name, value)
				default:
				}

				require.True(t, st.Delete("x", ref.Key))
				h := <-granted
				require.NotNil(t, h)
				assert.Greater(t, h.Token(), first.Token())
				require.NoError(t, h.Unlock())
				assert.Empty(t, memtest.Entries(st, "x"))
			})
		}
	}
}

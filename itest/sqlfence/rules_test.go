package sqlfence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// dialects has one kit for each dialect, and for each way in which a driver sends arguments: "text" is
// as behind a pooler, within the statement.
var dialects = []kit{
	{"native", "marks", ""},
	{"native", "marks", "text"},
	{"pgx", "marks", ""},
	{"mysql", "marks", ""},
	{"mysql", "marks", "text"},
	{"mysql", "marks", "old"},
	{"sqlite", "marks", ""},
}

// opened returns a client of a new database.
func (k kit) opened(t *testing.T) client {
	t.Helper()
	c, err := open(hang.Context(t), k.address(k.prepared(t)), "")
	require.NoError(t, err)
	all, ok := c.(client)
	require.True(t, ok)
	t.Cleanup(func() {
		if all.pool != nil {
			all.pool.Close()
		} else {
			_ = all.db.Close() // nothing of it is left
		}
	})
	return all
}

func eachDialect(t *testing.T, test func(t *testing.T, c client)) {
	t.Helper()
	for _, k := range dialects {
		t.Run(k.driver+k.isolation, func(t *testing.T) { test(t, k.opened(t)) })
	}
}

// touched runs Touch in a transaction of its own.
func (c client) touched(ctx context.Context, accesses ...sqlfence.Access) error {
	return c.once(ctx, func(tx tx) error { return tx.fence.Touch(ctx, accesses...) })
}

var errDropped = errors.New("the caller rolls back")

// TestSQLDecidesLikeTheRules compares the statements with fence.Marks, also when the caller ignores
// a refusal and commits, and when it rolls back.
func TestSQLDecidesLikeTheRules(t *testing.T) {
	eachDialect(t, func(t *testing.T, c client) {
		model, run := map[string]fence.Marks{}, 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			for range rapid.IntRange(1, 6).Draw(rt, "transactions") {
				var accesses []sqlfence.Access
				for _, name := range rapid.SampledFrom([][]string{{"a"}, {"b"}, {"b", "a"}, {"a", "B", "b"}}).Draw(rt, "names") {
					accesses = append(accesses, sqlfence.Access{
						Name: fmt.Sprint(name, run), Token: session.Token(rapid.Int64Range(1, 8).Draw(rt, "token")),
						Mode: rapid.SampledFrom([]session.Mode{"", session.Exclusive, session.Shared}).Draw(rt, "mode"),
					})
				}
				drop, ignore := rapid.Bool().Draw(rt, "drop"), rapid.Bool().Draw(rt, "ignore")
				refused := false
				after := map[string]fence.Marks{}
				for _, a := range accesses {
					mode := a.Mode
					if mode == "" {
						mode = session.Exclusive
					}
					marks, err := model[a.Name].Touch(a.Token, mode)
					refused = refused || err != nil
					after[a.Name] = marks
				}

				var got error
				err := c.once(t.Context(), func(tx tx) error {
					got = tx.fence.Touch(t.Context(), accesses...)
					switch {
					case drop:
						return errDropped
					case ignore:
						return nil
					}
					return got
				})

				if errors.Is(got, fence.ErrStale) != refused {
					rt.Fatalf("%v after %v: %v, want refused %t", accesses, model, got, refused)
				}
				if err == nil {
					maps.Copy(model, after)
				} else if !errors.Is(err, errDropped) && !errors.Is(err, fence.ErrStale) {
					rt.Fatal(err)
				}
			}
		})
	})
}

func TestARefusalNamesTheResourceAndBothTokens(t *testing.T) {
	eachDialect(t, func(t *testing.T, c client) {
		require.NoError(t, c.touched(t.Context(), sqlfence.Access{Name: "gpu", Part: "3", Token: math.MaxInt64}))

		err := c.touched(t.Context(), sqlfence.Access{Name: "gpu", Part: "3", Token: math.MaxInt64 - 1, Mode: session.Shared})

		require.ErrorIs(t, err, fence.ErrStale)
		var stale *fence.StaleError
		require.ErrorAs(t, err, &stale)
		assert.Equal(t, fence.StaleError{Token: math.MaxInt64 - 1, Mode: session.Shared, Seen: math.MaxInt64}, *stale)
		var named *sqlfence.StaleError
		require.ErrorAs(t, err, &named)
		assert.Equal(t, "gpu, part 3", named.Resource)
		require.EqualError(t, err, `sqlfence: "gpu, part 3": fence: stale token: shared token 9223372036854775806 refused: token 9223372036854775807 was seen`)
	})
}

func TestNamesAreComparedByteByByte(t *testing.T) {
	eachDialect(t, func(t *testing.T, c client) {
		names := []string{"a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", `a'b"c\d`, "a\x01"}
		for i, name := range names {
			require.NoError(t, c.touched(t.Context(), sqlfence.Access{Name: name, Token: session.Token(100 - i)}), "%q", name)
		}
		for i, name := range names {
			require.ErrorIs(t, c.touched(t.Context(), sqlfence.Access{Name: name, Token: session.Token(99 - i)}), fence.ErrStale, "%q", name)
			require.NoError(t, c.touched(t.Context(), sqlfence.Access{Name: name, Part: "0", Token: 1}), "a part has marks of its own")
		}
	})
}

// TestSchemaMayRunAgain also shows that the marks stay.
func TestSchemaMayRunAgain(t *testing.T) {
	eachDialect(t, func(t *testing.T, c client) {
		require.NoError(t, c.touched(t.Context(), sqlfence.Access{Name: "a", Token: 5}))
		require.NoError(t, c.once(t.Context(), func(tx tx) error {
			_, err := tx.exec(t.Context(), sqlfence.Schema(c.dialect()))
			return err
		}))
		require.ErrorIs(t, c.touched(t.Context(), sqlfence.Access{Name: "a", Token: 4}), fence.ErrStale)
	})
	assert.Empty(t, sqlfence.Schema("Oracle"))
}

// TestALoginNeedsNoMoreRights than Schema names.
func TestALoginNeedsNoMoreRights(t *testing.T) {
	ctx, k := hang.Context(t), kit{"native", "marks", ""}
	dsn := k.prepared(t)
	execute(t, "pgx", dsn, "CREATE ROLE app LOGIN", "GRANT SELECT, INSERT, UPDATE ON fairlock_marks TO app")
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.User("app")
	app, err := open(ctx, k.address(u.String()), fencetest.Kit)
	require.NoError(t, err)
	c, ok := app.(client)
	require.True(t, ok)
	defer c.pool.Close()

	require.NoError(t, c.touched(ctx, sqlfence.Access{Name: "a", Token: 5}))
	require.NoError(t, c.touched(ctx, sqlfence.Access{Name: "a", Token: 6}))
	require.ErrorIs(t, c.touched(ctx, sqlfence.Access{Name: "a", Token: 5}), fence.ErrStale)
}

func TestTheHoldOfTheContextIsTouched(t *testing.T) {
	s, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, mutex.New(s, "earlier").Do(t.Context(), func(context.Context, *session.Hold) error { return nil }), "it has token 1")
	ten := semaphore.NewWith(s, "gpu", 2, semaphore.Options{Slots: true})
	eachDialect(t, func(t *testing.T, c client) {
		both, err := mutex.LockAll(t.Context(), mutex.New(s, "b"), mutex.New(s, "a"))
		require.NoError(t, err)
		ctx := both.Context()
		require.NoError(t, c.touched(ctx))
		require.NoError(t, both.Unlock())
		for _, name := range []string{"a", "b"} {
			require.ErrorIs(t, c.touched(t.Context(), sqlfence.Access{Name: name, Token: both.Token() - 1}), fence.ErrStale)
		}
		require.ErrorIs(t, c.touched(ctx), context.Canceled, "the hold is over")
		require.NoError(t, c.touched(context.WithoutCancel(ctx)), "no newer hold has come")
		next, err := mutex.New(s, "a").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.touched(next.Context()))
		require.ErrorIs(t, c.touched(context.WithoutCancel(ctx)), fence.ErrStale)
		require.NoError(t, next.Unlock())

		one, err := ten.Acquire(t.Context(), 1)
		require.NoError(t, err)
		two, err := ten.Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, c.touched(two.Context()))
		require.NoError(t, c.touched(one.Context()), "it has another slot")
		require.NoError(t, one.Unlock())
		require.NoError(t, two.Unlock())
	})
}

// TestWhatCannotBeFencedIsRefused: these are mistakes of the caller, and no losses.
func TestWhatCannotBeFencedIsRefused(t *testing.T) {
	s, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	defer s.Close()
	h, err := semaphore.New(s, "permits", 2).Acquire(t.Context(), 1)
	require.NoError(t, err)
	defer h.Unlock()
	c := kit{"sqlite", "marks", ""}.opened(t)
	a := sqlfence.Access{Name: "a", Token: 5}
	oracle := sqlfence.In(nil, "Oracle")
	for _, x := range []struct {
		text string
		err  error
	}{
		{"the context comes from no hold", c.touched(t.Context())},
		{"use semaphore.Options.Slots", c.touched(h.Context())},
		{"token 0", c.touched(t.Context(), sqlfence.Access{Name: "a"})},
		{`mode "half"`, c.touched(t.Context(), sqlfence.Access{Name: "a", Token: 5, Mode: "half"})},
		{`"a" is named twice`, c.touched(t.Context(), a, sqlfence.Access{Name: "b", Token: 5}, a)},
		{`unknown dialect "Oracle"`, oracle.Touch(t.Context(), a)},
		{`unknown dialect "Oracle"`, oracle.TouchRow(t.Context(), row("a", 5))},
		{`unknown dialect "Oracle"`, oracle.CheckRow(t.Context(), row("a", 5), 1)},
	} {
		require.ErrorContains(t, x.err, x.text)
		require.NotErrorIs(t, x.err, fence.ErrStale)
	}
	require.ErrorIs(t, c.touched(t.Context()), sqlfence.ErrNoHold)
	require.NoError(t, c.touched(t.Context(), sqlfence.Access{Name: "a", Token: 1}), "nothing was recorded")
}

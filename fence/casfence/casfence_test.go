package casfence_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/casfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/session"
)

// memory is a Bucket that can be changed and can fail between two requests.
type memory struct {
	mu      sync.Mutex
	all     map[string]casfence.Object
	version int
	puts    int
	before  func() error // each Put
}

func (m *memory) Get(_ context.Context, key string) (casfence.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[key], nil
}

func (m *memory) Put(_ context.Context, key string, o casfence.Object) error {
	if m.before != nil {
		err := m.before()
		if err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]casfence.Object{}
	}
	if m.all[key].Version != o.Version {
		return casfence.ErrChanged
	}
	m.version++
	m.puts++
	o.Version = strconv.Itoa(m.version)
	m.all[key] = o
	return nil
}

func TestLowerTokensAreRefusedReadsIncluded(t *testing.T) {
	ctx, b := t.Context(), &memory{}
	_, err := casfence.Read(ctx, b, "report", 5, session.Exclusive)
	require.ErrorIs(t, err, fs.ErrNotExist, "and yet it counts")

	err = casfence.Write(ctx, b, "report", []byte("late"), 4)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fence.StaleError{Token: 4, Mode: session.Exclusive, Seen: 5}, *stale)
	assert.ErrorContains(t, err, `"report"`)

	require.NoError(t, casfence.Write(ctx, b, "report", []byte("five"), 5))
	data, err := casfence.Read(ctx, b, "report", 7, session.Shared)
	require.NoError(t, err)
	assert.Equal(t, "five", string(data))
	require.ErrorIs(t, casfence.Write(ctx, b, "report", nil, 6), fence.ErrStale, "a reader has come")
	_, err = casfence.Read(ctx, b, "report", 6, session.Shared)
	require.NoError(t, err, "readers come in any order")
	require.NoError(t, casfence.Write(ctx, b, "report", nil, 8), "an empty object is written too")
	data, err = casfence.Read(ctx, b, "report", 8, session.Exclusive)
	require.NoError(t, err)
	assert.Empty(t, data)
}

func TestOnlyTheFirstReadOfAHoldWrites(t *testing.T) {
	ctx, b := t.Context(), &memory{}
	require.NoError(t, casfence.Write(ctx, b, "report", []byte("five"), 5))
	for range 3 {
		_, err := casfence.Read(ctx, b, "report", 6, session.Exclusive)
		require.NoError(t, err)
	}

	assert.Equal(t, 2, b.puts)
}

// The old holder has read the object and is stopped before its Put.
func TestAWriteThatWasOvertakenChecksAgain(t *testing.T) {
	ctx, b := t.Context(), &memory{}
	b.before = func() error {
		b.before = nil
		data, err := casfence.Read(ctx, b, "report", 6, session.Exclusive)
		require.ErrorIs(t, err, fs.ErrNotExist)
		return casfence.Write(ctx, b, "report", append(data, "six"...), 6)
	}

	err := casfence.Write(ctx, b, "report", []byte("five"), 5)

	require.ErrorIs(t, err, fence.ErrStale)
	data, err := casfence.Read(ctx, b, "report", 6, session.Exclusive)
	require.NoError(t, err)
	assert.Equal(t, "six", string(data))
}

func TestAnErrorIsReportedAndTheEndOfTheContextEndsAttempts(t *testing.T) {
	broken, cause := errors.New("unreachable"), errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	b := &memory{before: func() error { return broken }}
	require.ErrorIs(t, casfence.Write(ctx, b, "report", nil, 5), broken)
	attempts := 0
	b.before = func() error {
		attempts++
		if attempts == 10 {
			cancel(cause)
		}
		return casfence.ErrChanged
	}

	require.ErrorIs(t, casfence.Write(ctx, b, "report", nil, 5), cause)
	assert.Equal(t, 10, attempts)
}

// client is a holder of the load.
type client struct {
	*memory
	checked bool
}

func (c client) Read(ctx context.Context, resource string, t session.Token) (string, error) {
	if !c.checked {
		o, err := c.Get(ctx, resource)
		return string(o.Data), err
	}
	data, err := casfence.Read(ctx, c, resource, t, session.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(data), err
}

func (c client) Write(ctx context.Context, resource string, t session.Token, value string) error {
	if !c.checked {
		o, err := c.Get(ctx, resource)
		if err != nil {
			return err
		}
		o.Data, o.Written = []byte(value), true
		return c.Put(ctx, resource, o)
	}
	return casfence.Write(ctx, c, resource, []byte(value), t)
}

func TestFencedWritesAloneLoseUpdatesAndFencedFirstTouchesDoNot(t *testing.T) {
	b := &memory{}
	fencetest.TestOrders(t, func(_ context.Context, _ string, k fencetest.Kind) (fencetest.Client, error) {
		return client{b, k == fencetest.Kit}, nil
	}, "")
}

// With a store of s3fence or gcsfence, the bucket is theirs.
func ExampleWrite() {
	ctx, bucket := context.Background(), &memory{}
	old, next := session.Token(41), session.Token(42) // h.Token()

	_, err := casfence.Read(ctx, bucket, "report", old, session.Exclusive)
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	fmt.Println(casfence.Write(ctx, bucket, "report", []byte("next"), next))
	fmt.Println(casfence.Write(ctx, bucket, "report", []byte("late"), old))
	// Output:
	// true
	// <nil>
	// casfence: "report": fence: stale token: exclusive token 41 refused: token 42 was seen
}

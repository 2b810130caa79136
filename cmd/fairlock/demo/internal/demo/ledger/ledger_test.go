package ledger

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryRequestWithALowerTokenIsRefused(t *testing.T) {
	var l Ledger
	require.NoError(t, l.Write(3, "ada", 1))

	balance, err := l.Read(5, "bob") // a read raises the highest token

	require.NoError(t, err)
	assert.EqualValues(t, 1, balance)
	require.ErrorIs(t, l.Write(3, "ada", 2), ErrStale)
	_, err = l.Read(4, "cleo")
	require.EqualError(t, err, "ledger: token is stale: 4, and 5 was here before")
	require.NoError(t, l.Write(5, "bob", 2), "the highest token itself may be used again")
	assert.EqualValues(t, 5, l.Highest())
	assert.Equal(t, []Refusal{
		{Token: 3, Worker: "ada", Write: true, Highest: 5},
		{Token: 4, Worker: "cleo", Highest: 5},
	}, l.Refused())
}

func TestLast(t *testing.T) {
	var l Ledger
	for i := range int64(4) {
		require.NoError(t, l.Write(i, "ada", i+1))
	}

	last, n := l.Last(2)

	assert.Equal(t, []Entry{{Token: 2, Worker: "ada", Balance: 3}, {Token: 3, Worker: "ada", Balance: 4}}, last)
	assert.Equal(t, 4, n)
	all, _ := l.Last(9)
	assert.Len(t, all, 4)
}

// serve returns the URL of a ledger.
func serve(t *testing.T, l *Ledger, w Callbacks) string {
	t.Helper()
	s, err := Serve(t.Context(), l, w)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s.URL()
}

func client(t *testing.T, url, worker string) *Client {
	t.Helper()
	c := NewClient(url, worker)
	t.Cleanup(c.Close)
	return c
}

func TestServerServesTheLedgerOverHTTP(t *testing.T) {
	var mu sync.Mutex
	var firsts []int64
	url := serve(t, &Ledger{}, Callbacks{First: func(_ context.Context, token int64) {
		mu.Lock()
		defer mu.Unlock()
		firsts = append(firsts, token)
	}})
	ada, bob := client(t, url, "ada"), client(t, url, "bob")
	ctx := t.Context()

	balance, err := ada.Read(ctx, 3)
	require.NoError(t, err)
	require.NoError(t, ada.Write(ctx, 3, balance+1))
	balance, err = bob.Read(ctx, 5)
	require.NoError(t, err)
	late := ada.Write(ctx, 3, balance+1)

	assert.EqualValues(t, 1, balance)
	require.ErrorIs(t, late, ErrStale)
	assert.Equal(t, []int64{3, 5}, firsts, "once for each token, and not for a refused one")
}

func TestMalformedRequestIsBadRequest(t *testing.T) {
	url := serve(t, &Ledger{}, Callbacks{})
	for _, c := range []struct {
		method, token, body string
		want                int
	}{
		{http.MethodGet, "", "", http.StatusBadRequest},
		{http.MethodGet, "x", "", http.StatusBadRequest},
		{http.MethodPut, "1", "much", http.StatusBadRequest},
		{http.MethodPut, "1", strings.Repeat("1", 65), http.StatusBadRequest},
		{http.MethodPut, "1", "1", http.StatusOK},
		{http.MethodPut, "0", "2", http.StatusPreconditionFailed},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, url+"/balance", strings.NewReader(c.body))
		require.NoError(t, err)
		req.Header.Set(tokenHeader, c.token)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_ = resp.Body.Close()

		assert.Equal(t, c.want, resp.StatusCode, "%+v", c)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestClosedServerIsNotAStaleToken(t *testing.T) {
	s, err := Serve(t.Context(), &Ledger{}, Callbacks{})
	require.NoError(t, err)
	require.NoError(t, s.Close())

	_, err = client(t, s.URL(), "ada").Read(t.Context(), 1)

	require.Error(t, err)
	assert.False(t, errors.Is(err, ErrStale))
}

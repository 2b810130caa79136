package httpfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/filefence"
	"github.com/fairlock/fairlock/fence/httpfence"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// memory keeps marks as long as the test lives.
type memory struct {
	mu  sync.Mutex
	all map[string]fence.Marks
	err error
}

func (m *memory) Touch(_ context.Context, resource string, t session.Token, mode session.Mode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	after, err := m.all[resource].Touch(t, mode)
	if m.all == nil {
		m.all = map[string]fence.Marks{}
	}
	m.all[resource] = after
	return err
}

func (m *memory) of(resource string) fence.Marks {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[resource]
}

// serve answers a request with a token, and with a mode if it is not "".
func serve(h http.Handler, token string, mode session.Mode) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/checked/ada", nil)
	if token != "" {
		r.Header.Set(session.TokenHeader, token)
	}
	if mode != "" {
		r.Header.Set(httpfence.ModeHeader, string(mode))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestARefusalNamesBothTokensAndTheResource(t *testing.T) {
	h := newServer(&store{}, &memory{})
	require.Equal(t, http.StatusOK, serve(h, "9223372036854775807", "").StatusCode)

	response := serve(h, "9223372036854775806", "")

	assert.Equal(t, http.StatusConflict, response.StatusCode)
	assert.Equal(t, "application/problem+json", response.Header.Get("Content-Type"))
	var body map[string]any
	require.NoError(t, json.NewDecoder(response.Body).Decode(&body))
	assert.Equal(t, map[string]any{
		"type": "https://github.com/fairlock/fairlock/fence#stale", "title": "Stale token", "status": 409.0, "resource": "ada",
		"detail": "exclusive token 9223372036854775806 refused: token 9223372036854775807 was seen",
		"token":  "9223372036854775806", "seen": "9223372036854775807", "mode": "exclusive",
	}, body)

	err := httpfence.Check(serve(h, "9223372036854775806", ""))
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.ErrorIs(t, err, fence.ErrStale)
	assert.Equal(t, fence.StaleError{Token: math.MaxInt64 - 1, Mode: session.Exclusive, Seen: math.MaxInt64}, *stale)
	assert.ErrorContains(t, err, `resource "ada"`)
}

func TestReadersComeInAnyOrderAndWritersBehindThem(t *testing.T) {
	h := newServer(&store{}, &memory{})
	for _, c := range []struct {
		token  string
		mode   session.Mode
		status int
	}{
		{"3", "", 200},
		{"5", session.Shared, 200},
		{"4", session.Shared, 200},
		{"4", "", 409},
		{"4", session.Exclusive, 409},
		{"2", session.Shared, 409},
		{"6", "", 200},
		{"5", session.Shared, 409},
	} {
		assert.Equal(t, c.status, serve(h, c.token, c.mode).StatusCode, "%+v", c)
	}
}

func TestARequestThatShowsNoHoldIsRefused(t *testing.T) {
	data := &store{}
	marks := &memory{}
	strict := httpfence.Handler(data, marks, func(*http.Request) string { return "ada" }, &httpfence.Options{Missing: http.StatusBadRequest})
	for _, c := range []struct {
		h      http.Handler
		token  string
		mode   session.Mode
		status int
		text   string
	}{
		{newServer(data, marks), "", "", 428, "Fairlock-Token is missing"},
		{strict, "", "", 400, "Fairlock-Token is missing"},
		{strict, "-1", "", 400, "is not a fencing token"},
		{strict, "07", "", 400, "is not a fencing token"},
		{strict, "7", "half", 400, "is no mode"},
	} {
		response := serve(c.h, c.token, c.mode)

		assert.Equal(t, c.status, response.StatusCode, "%+v", c)
		require.NoError(t, httpfence.Check(response), "no lock was lost")
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Contains(t, string(body), c.text)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header[session.TokenHeader] = []string{"7", "8"}
	w := httptest.NewRecorder()
	strict.ServeHTTP(w, r)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Empty(t, marks.all)
}

func TestARequestForNoResourceNeedsNoToken(t *testing.T) {
	h := httpfence.Handler(&store{}, &memory{}, func(*http.Request) string { return "" }, nil)

	assert.Equal(t, http.StatusOK, serve(h, "", "").StatusCode)
}

func TestMarksThatFailLetNobodyIn(t *testing.T) {
	served := false
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })
	h := httpfence.Handler(next, &memory{err: errors.New("disk full")}, func(*http.Request) string { return "ada" }, nil)

	response := serve(h, "7", "")

	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	assert.False(t, served)
}

func TestMarksSurviveARestart(t *testing.T) {
	dir := filefence.Folder(t.TempDir())
	require.Equal(t, http.StatusOK, serve(newServer(&store{}, dir), "7", "").StatusCode)

	again := newServer(&store{}, dir)

	assert.Equal(t, http.StatusConflict, serve(again, "6", "").StatusCode)
	assert.Equal(t, http.StatusOK, serve(again, "7", "").StatusCode)
}

func TestWritersAreServedOneByOneAndReadersTogether(t *testing.T) {
	begun, goOn := make(chan session.Token), make(chan struct{})
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		token, _, ok := httpfence.Access(r.Context())
		assert.True(t, ok)
		begun <- token
		<-goOn
	})
	h := httpfence.Handler(next, &memory{}, func(*http.Request) string { return "ada" }, nil)
	var all sync.WaitGroup
	start := func(token string, mode session.Mode, status int) {
		all.Go(func() { assert.Equal(t, status, serve(h, token, mode).StatusCode) })
	}

	start("3", session.Shared, 200)
	start("4", session.Shared, 200)
	readers := []session.Token{hang.Receive(t, begun, "a reader"), hang.Receive(t, begun, "the other reader")}
	assert.ElementsMatch(t, []session.Token{3, 4}, readers)
	start("5", "", 200)
	select {
	case token := <-begun:
		t.Errorf("token %d is served next to readers", token)
	default:
	}
	close(goOn)
	assert.EqualValues(t, 5, hang.Receive(t, begun, "the writer"))
	all.Wait()
	assert.Zero(t, httpfence.Serving(h), "nothing is kept of a resource that is not served")
}

// A check before the wait would let a request in that was outbid while it waited.
func TestATokenIsCheckedAfterTheWait(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-goOn
	})
	marks := &memory{}
	h := httpfence.Handler(next, marks, func(*http.Request) string { return "ada" }, nil)
	var all sync.WaitGroup
	all.Go(func() { assert.Equal(t, 200, serve(h, "5", "").StatusCode) })
	hang.Receive(t, begun, "the first request")
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
		httpfence.Set(r.Header, 9, session.Exclusive)
		h.ServeHTTP(httptest.NewRecorder(), r)
	})
	all.Go(func() { assert.Equal(t, 200, serve(h, "7", "").StatusCode) })
	hang.Until(t, func() bool { return httpfence.Requests(h, "ada") == 3 }, "two requests wait")

	assert.Equal(t, fence.Marks{Exclusive: 5}, marks.of("ada"))
	cancel()
	close(goOn)
	hang.Receive(t, begun, "the request of token 7")
	all.Wait()
	assert.Equal(t, fence.Marks{Exclusive: 7}, marks.of("ada"), "the client of token 9 has gone")
}

func TestACheckAtTheDataIsARefusalToo(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := fence.Marks{Exclusive: 9}.Touch(7, session.Exclusive)
		assert.False(t, httpfence.Refuse(w, "ada", errors.New("disk full")))
		assert.True(t, httpfence.Refuse(w, "ada", err))
	})

	err := httpfence.Check(serve(httpfence.Handler(next, &memory{}, func(*http.Request) string { return "ada" }, nil), "7", ""))

	require.ErrorIs(t, err, fence.ErrStale)
	assert.ErrorContains(t, err, "token 7 refused: token 9 was seen")
}

func TestOtherResponsesStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		status     int
		kind, body string
	}{
		{200, "text/plain", "fine"},
		{409, "text/plain", "another conflict"},
		{409, "application/problem+json", `{"type":"about:blank","title":"another conflict"}`},
		{409, "application/problem+json", `{`},
		{409, "application/problem+json", strings.Repeat(" ", 100_000) + "much"},
		{409, "application/problem+json", `{"type":"https://github.com/fairlock/fairlock/fence#stale","token":7,"seen":9}`},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", c.kind)
		w.WriteHeader(c.status)
		_, _ = io.WriteString(w, c.body)
		response := w.Result()

		require.NoError(t, httpfence.Check(response))

		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Equal(t, c.body, string(body))
		require.NoError(t, response.Body.Close())
	}
}

// headers records what a server gets.
func headers(t *testing.T) (url string, got chan http.Header) {
	got = make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	t.Cleanup(server.Close)
	return server.URL, got
}

func TestTheTransportSendsTheTokenOfTheHold(t *testing.T) {
	url, got := headers(t)
	c := &http.Client{Transport: &httpfence.Transport{}}
	get := func(ctx context.Context, own string) http.Header {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		require.NoError(t, err)
		if own != "" {
			r.Header.Set(session.TokenHeader, own)
		}
		response, err := c.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		if own == "" {
			assert.NotContains(t, r.Header, session.TokenHeader, "the request itself is not changed")
		}
		return <-got
	}
	s, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	defer s.Close()
	outer, err := mutex.New(s, "ada").Lock(t.Context())
	require.NoError(t, err)
	inner, err := rwlock.New(s, "bob").RLock(outer.Context())
	require.NoError(t, err)

	assert.NotContains(t, get(t.Context(), ""), session.TokenHeader)
	at := get(outer.Context(), "")
	assert.Equal(t, outer.Token().String(), at.Get(session.TokenHeader))
	assert.NotContains(t, at, httpfence.ModeHeader)
	at = get(context.WithoutCancel(inner.Context()), "")
	assert.Equal(t, inner.Token().String(), at.Get(session.TokenHeader))
	assert.Equal(t, "shared", at.Get(httpfence.ModeHeader))
	at = get(inner.Context(), "42")
	assert.Equal(t, "42", at.Get(session.TokenHeader))
	assert.NotContains(t, at, httpfence.ModeHeader)
	c.Transport = &httpfence.Transport{Lock: func(*http.Request) string { return "ada" }}
	at = get(inner.Context(), "")
	assert.Equal(t, outer.Token().String(), at.Get(session.TokenHeader))
	require.NoError(t, inner.Unlock())
	require.NoError(t, outer.Unlock())
}

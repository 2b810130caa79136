package health_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends a probe, checks what is the same in all answers, and returns the report. In a
// bubble of synctest no time passes meanwhile: the handler waits for nothing.
func ask(t *testing.T, h http.Handler) (status int, r health.Report) {
	t.Helper()
	before := time.Now()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	assert.Equal(t, before, time.Now(), "the probe has waited")
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
	assert.Equal(t, w.Code == http.StatusOK, r.OK)
	return w.Code, r
}

// asserts checks the answers to both probes.
func asserts(t *testing.T, p *health.Probes, ready, live int) health.Report {
	t.Helper()
	status, r := ask(t, p.Ready())
	assert.Equal(t, ready, status, "readiness: %+v", r)
	status, alive := ask(t, p.Live())
	assert.Equal(t, live, status, "liveness: %+v", alive)
	return r
}

func open(t *testing.T, c *membackend.Client, label string) *session.Session {
	t.Helper()
	s, err := c.Open(t.Context(), &session.Options{TTL: 10 * time.Second, Margin: time.Second, Label: label})
	require.NoError(t, err)
	return s
}

func TestReadinessFollowsTheSessionAndLivenessSurvivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		opened := time.Now()
		s := open(t, c, "settle-7")
		p := health.New(s)
		r := asserts(t, p, 200, 200)
		require.Len(t, r.Sessions, 1)
		assert.Equal(t, "settle-7", r.Sessions[0].Label)
		assert.True(t, opened.Equal(r.Sessions[0].Since))
		assert.Positive(t, r.Sessions[0].Left)
		assert.LessOrEqual(t, r.Sessions[0].Left, 9.0)
		assert.Empty(t, r.Sessions[0].Error)

		c.Cut(fault.Both)
		time.Sleep(5 * time.Second)
		asserts(t, p, 200, 200) // what is held is still held
		time.Sleep(5 * time.Second)
		r = asserts(t, p, 503, 200)
		assert.Zero(t, r.Sessions[0].Left)
		assert.Contains(t, r.Sessions[0].Error, "deadline")
		assert.False(t, r.Sessions[0].Closed)
		for range 60 {
			time.Sleep(time.Minute)
			asserts(t, p, 503, 200)
		}

		c.Heal()
		for range 10 { // only the probe needs the session
			ask(t, p.Ready())
			time.Sleep(time.Second)
		}
		r = asserts(t, p, 200, 200)
		assert.Empty(t, r.Sessions[0].Error)

		require.NoError(t, s.Close())
		r = asserts(t, p, 503, 503)
		assert.True(t, r.Sessions[0].Closed)
		assert.Equal(t, session.ErrClosed.Error(), r.Sessions[0].Error)
	})
}

func TestAServiceThatHasEndedTheSessionFailsReadinessOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := membackend.New()
		c := store.NewClient()
		s := open(t, c, "")
		defer s.Close()
		p := health.New(s)
		c.Stall() // the process is stopped, and the service expires its session
		time.Sleep(time.Minute)
		c.Cut(fault.Both)
		c.Resume()
		synctest.Wait()

		r := asserts(t, p, 503, 200)

		assert.NotEmpty(t, r.Sessions[0].Error)
	})
}

func TestAProgramIsAliveAndNotReadyBeforeItsFirstSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := health.New()
		r := asserts(t, p, 503, 200)
		assert.NotNil(t, r.Sessions, "a list in JSON, not null")

		s := open(t, membackend.New().NewClient(), "")
		defer s.Close()
		p.Add(s)

		asserts(t, p, 200, 200)
	})
}

func TestOneOfSeveralSessionsFailsTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := membackend.New().NewClient(), membackend.New().NewClient()
		first, second := open(t, a, "a"), open(t, b, "b")
		defer first.Close()
		p := health.New(first, second)
		asserts(t, p, 200, 200)

		b.Cut(fault.Both)
		time.Sleep(time.Minute)
		r := asserts(t, p, 503, 200)
		assert.True(t, r.Sessions[0].Ready)
		assert.False(t, r.Sessions[1].Ready)

		b.Heal()
		require.NoError(t, second.Close())
		asserts(t, p, 503, 503)
	})
	assert.Equal(t, http.StatusServiceUnavailable, statusOf(health.New(nil).Live(), http.MethodGet), "nil is closed")
}

func statusOf(h http.Handler, method string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/", http.NoBody))
	return w.Code
}

func TestProbesAnswerGETAndHEADOnly(t *testing.T) {
	s, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	defer s.Close()
	p := health.New(s)
	for _, h := range []http.Handler{p.Ready(), p.Live()} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/", http.NoBody))
			assert.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
			assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
		server := httptest.NewServer(h)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL, http.NoBody)
		require.NoError(t, err)
		answer, err := server.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusOK, answer.StatusCode)
		server.Close()
	}
}

// A hook that does not return must not stop the probes: the process is alive, and what
// the session is worth is known without the hook.
func TestAHookThatBlocksDelaysNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		release := make(chan struct{})
		var p *health.Probes
		s, err := c.Open(context.Background(), &session.Options{TTL: 10 * time.Second, Margin: time.Second, Hooks: session.Hooks{
			SessionLost: func(session.Event) { <-release },
		}})
		require.NoError(t, err)
		p = health.New(s)
		c.Cut(fault.Both)
		time.Sleep(time.Minute)

		asserts(t, p, 503, 200)

		c.Heal()
		close(release)
		require.NoError(t, s.Close())
	})
}

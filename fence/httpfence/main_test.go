package httpfence_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/fairlock/fairlock/fence/httpfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { os.Exit(fencetest.Main(m, open)) }

// store is the data of a server, which answers GET and PUT.
type store struct {
	mu  sync.Mutex
	all map[string]string
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]string{}
	}
	if r.Method == http.MethodPut {
		s.all[name(r)] = string(body)
	}
	_, _ = io.WriteString(w, s.all[name(r)])
}

// name is the resource of a request for /checked/NAME or /plain/NAME.
func name(r *http.Request) string { return r.PathValue("name") }

// newServer serves data with checks and without.
func newServer(data *store, marks httpfence.Marks) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/plain/{name}", data)
	mux.Handle("/checked/{name}", httpfence.Handler(data, marks, name, nil))
	return mux
}

// client is a client of a server.
type client struct{ prefix string }

func open(_ context.Context, address string, k fencetest.Kind) (fencetest.Client, error) {
	if k == fencetest.Plain {
		return client{address + "/plain/"}, nil
	}
	return client{address + "/checked/"}, nil
}

func (c client) Read(ctx context.Context, resource string, t session.Token) (string, error) {
	return c.do(ctx, http.MethodGet, resource, t, "")
}

func (c client) Write(ctx context.Context, resource string, t session.Token, value string) error {
	_, err := c.do(ctx, http.MethodPut, resource, t, value)
	return err
}

func (c client) do(ctx context.Context, method, resource string, t session.Token, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.prefix+resource, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	httpfence.Set(r.Header, t, session.Exclusive)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	err = httpfence.Check(response)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return string(text), err
}

package redisfence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/filefence"
	"github.com/fairlock/fairlock/fence/httpfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
)

// holderEnv has the kind of the resource, its address and that of the lock service, for a process
// that holds.
const holderEnv = "FAIRLOCK_REDISFENCE_HOLDER"

// resourceName is what the lock protects. The lock has the name of the kind.
const resourceName = "report"

// resource is what the lock protects. Its methods get the context of the hold.
type resource interface {
	read(ctx context.Context) (string, error)
	write(ctx context.Context, value string) error
}

func newResource(kind, address string) (resource, error) {
	switch kind {
	case "file":
		return file(filepath.Join(address, resourceName)), nil
	case "http":
		return request(address), nil
	case "redis":
		c, err := connect(address)
		return onRedis{checked{c}}, err
	}
	c, err := connect(address)
	return onRedis{plain{c}}, err
}

// onRedis is a client of the load.
type onRedis struct{ fencetest.Client }

func (r onRedis) read(ctx context.Context) (string, error) {
	t, _ := session.TokenFrom(ctx)
	return r.Read(ctx, resourceName, t)
}

func (r onRedis) write(ctx context.Context, value string) error {
	t, _ := session.TokenFrom(ctx)
	return r.Write(ctx, resourceName, t, value)
}

type file string

func (f file) read(ctx context.Context) (string, error) {
	h, _ := session.HoldFrom(ctx)
	data, err := filefence.Read(ctx, string(f), h.Token(), h.Mode())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(data), err
}

func (f file) write(ctx context.Context, value string) error {
	t, _ := session.TokenFrom(ctx)
	return filefence.Write(ctx, string(f), []byte(value), 0o600, t)
}

// request is the URL of a server.
type request string

func (r request) read(ctx context.Context) (string, error) { return r.do(ctx, http.MethodGet, "") }

func (r request) write(ctx context.Context, value string) error {
	_, err := r.do(ctx, http.MethodPut, value)
	return err
}

func (r request) do(ctx context.Context, method, body string) (string, error) {
	q, err := http.NewRequestWithContext(ctx, method, string(r), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	c := &http.Client{Transport: &httpfence.Transport{}}
	response, err := c.Do(q)
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
		err = errors.New(response.Status)
	}
	return string(text), err
}

// serveValue serves one value, and keeps its marks in a folder.
func serveValue(t *testing.T) (url string) {
	var mu sync.Mutex
	value := ""
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			value = string(body)
		}
		_, _ = io.WriteString(w, value)
	})
	server := httptest.NewServer(httpfence.Handler(next, filefence.Folder(t.TempDir()), func(*http.Request) string { return resourceName }, nil))
	t.Cleanup(server.Close)
	return server.URL
}

// do acquires the lock, reads, calls between, and adds a name to the value.
func do(ctx context.Context, server, kind, address, name string, between func(value string)) error {
	r, err := newResource(kind, address)
	if err != nil {
		return err
	}
	s, err := redisbackend.Open(ctx, rueidis.ClientOption{InitAddress: []string{server}, DisableCache: true}, options())
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // its lock may be lost
	h, err := mutex.New(s, kind).Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = h.Unlock() }() // of a lock that was lost it is an error
	value, err := r.read(h.Context())
	if err != nil {
		return err
	}
	between(value)
	return r.write(context.WithoutCancel(h.Context()), value+name) // a process can be stopped after any check
}

func options() *redisbackend.Options {
	const ttl = 2 * time.Second
	return &redisbackend.Options{MaxTTL: ttl, Session: session.Options{TTL: ttl}}
}

// hold is the process that is stopped between its read and its write.
func hold() {
	var kind, address, server string
	_, err := fmt.Sscan(os.Getenv(holderEnv), &kind, &address, &server)
	if err == nil {
		err = do(context.Background(), server, kind, address, "old", func(string) {
			fmt.Println("read")
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		})
	}
	fmt.Println(err)
}

func TestAHolderThatWasStoppedAndOutlivedWritesNothing(t *testing.T) {
	server := redistest.New(t, nil)
	require.NoError(t, redisbackend.Init(hang.Context(t), rueidis.ClientOption{InitAddress: []string{server.Addr()}}, options()))
	for _, c := range []struct{ kind, address, left string }{
		{"file", t.TempDir(), "next"},
		{"http", serveValue(t), "next"},
		{"redis", redistest.New(t, nil).Addr(), "next"},
		{"plain", redistest.New(t, nil).Addr(), "old"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			cmd, err := process.Self(t.Context(), holderEnv, strings.Join([]string{c.kind, c.address, server.Addr()}, " "))
			require.NoError(t, err)
			p := process.StartPiped(cmd)
			defer p.Halt()
			lines := bufio.NewScanner(p)
			require.True(t, lines.Scan())
			require.Equal(t, "read", lines.Text())

			require.NoError(t, p.Pause())
			require.NoError(t, do(hang.Context(t), server.Addr(), c.kind, c.address, "next", func(string) {}))
			require.NoError(t, p.Resume())
			_, err = io.WriteString(p, "go\n")
			require.NoError(t, err)
			require.True(t, lines.Scan())

			if c.kind == "plain" {
				assert.Equal(t, "<nil>", lines.Text(), "and the update of the next holder is lost")
			} else {
				assert.Contains(t, lines.Text(), fence.ErrStale.Error())
			}
			var left string
			require.NoError(t, do(hang.Context(t), server.Addr(), c.kind, c.address, "", func(value string) { left = value }))
			assert.Equal(t, c.left, left)
		})
	}
}

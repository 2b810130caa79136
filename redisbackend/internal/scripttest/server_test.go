package scripttest

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
)

// server is a client of the only server.
var server rueidis.Client

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run starts the server, which listens on a socket in a folder only, and runs the tests.
func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "fairlock-redis-*")
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the folder
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "s")
	program := cmp.Or(os.Getenv("FAIRLOCK_REDIS"), "redis-server")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir) //nolint:gosec // a test's own server
	p := process.Start(cmd)
	defer p.Halt()
	for {
		server, err = rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"socket"}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
			DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return d.DialContext(ctx, "unix", socket)
			},
		})
		if err == nil {
			break
		}
		select {
		case <-p.Done():
			return 0, fmt.Errorf("start redis-server: %w: install Debian's redis-server", p.Err())
		default:
		}
	}
	defer server.Close()
	return m.Run(), nil
}

// root is a root of one test.
type root struct {
	t      *testing.T
	prefix string
	life   string
	set    *script.Set
}

var roots atomic.Int64

// newRoot returns a root that is whole.
func newRoot(t *testing.T) *root {
	t.Helper()
	r := emptyRoot(t)
	require.Equal(t, "[OK]", r.run(&r.set.Init, "60000", "1"))
	return r
}

func emptyRoot(t *testing.T) *root {
	t.Helper()
	r := &root{t: t, prefix: script.Prefix(fmt.Sprint("root", roots.Add(1))), set: script.New(script.Kind{Flags: true})}
	r.life = r.reply(&r.set.Examine, "look", "", "").Text(1)
	return r
}

func (r *root) do(s *script.Script, args ...string) rueidis.RedisResult {
	r.t.Helper()
	return server.Do(hang.Context(r.t), server.B().Eval().Script(s.Text).Numkeys(1).Key(r.prefix).Arg(args...).Build())
}

func (r *root) reply(s *script.Script, args ...string) script.Reply {
	r.t.Helper()
	all, err := r.do(s, args...).ToArray()
	require.NoError(r.t, err, s.Name)
	return all
}

// run runs a script and returns its reply as text.
func (r *root) run(s *script.Script, args ...string) string {
	r.t.Helper()
	v, err := r.do(s, args...).ToAny()
	require.NoError(r.t, err, s.Name)
	return fmt.Sprint(v)
}

// command runs a command and returns its reply as text.
func command(t *testing.T, words ...string) string {
	t.Helper()
	v, err := server.Do(hang.Context(t), server.B().Arbitrary(words[0]).Args(words[1:]...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	require.NoError(t, err, "%q", words)
	return fmt.Sprint(v)
}

// opens makes a session.
func (r *root) opens(session string) {
	r.t.Helper()
	require.Equal(r.t, script.OK, r.renew(session, true))
}

func (r *root) renew(session string, makes bool) string {
	r.t.Helper()
	a := script.Args{r.life, session}
	a.Flag(makes)
	a.Int(0, 0, 0, 0)
	return r.reply(&r.set.Renew, a...).Text(0)
}

// version returns that of a session, or "" if it is over.
func (r *root) version(session string) string {
	r.t.Helper()
	a := script.Args{r.life}
	a.Int(0)
	a.Texts([]string{session})
	a.Int(0)
	return r.reply(&r.set.See, a...).List(1).Text(1)
}

// turn is a call of a session.
type turn struct {
	session      string
	slot, number int64
	given        []int64 // slot and number of each call that was given up
}

func (c turn) args(life string) script.Args {
	a := script.Args{life, c.session}
	a.Int(c.slot, c.number, int64(len(c.given)/2))
	a.Int(c.given...)
	return a
}

// join joins a queue with the record a, if that is wanted.
func (r *root) join(c turn, queue string, ifEmpty bool, records ...string) script.Reply {
	r.t.Helper()
	a := c.args(r.life)
	a.Int(1)
	a.Text(queue, "1", "1", "0", "data", "0", "")
	a.Flag(ifEmpty)
	a.Int(64, 1, int64(len(records)))
	for _, name := range records {
		a.Text(name, "0", "", "1", "value", "1", "0") // absent, bound, required
	}
	a.Int(0)
	return r.reply(&r.set.Join, a...)
}

func (r *root) leave(c turn, queue string, place int64) script.Reply {
	r.t.Helper()
	a := c.args(r.life)
	a.Int(1)
	a.Text(queue, strconv.FormatInt(place, 10), "1", "0", "0")
	return r.reply(&r.set.Leave, a...)
}

func (r *root) settle(c turn, queue string, records ...string) string {
	r.t.Helper()
	a := script.Args{r.life, c.session}
	a.Int(c.slot, c.number, 1)
	a.Text(queue)
	a.Texts(records)
	return r.reply(&r.set.Settle, a...).Text(0)
}

// count returns how many entries a queue has, by each key that knows of it.
func (r *root) count(queue string) int {
	r.t.Helper()
	n, err := strconv.Atoi(command(r.t, "ZCARD", r.prefix+"q:"+queue))
	require.NoError(r.t, err)
	fields, err := strconv.Atoi(command(r.t, "HLEN", r.prefix+"h:"+queue))
	require.NoError(r.t, err)
	assert.Equal(r.t, 2*n, fields, "a header and data each")
	return n
}

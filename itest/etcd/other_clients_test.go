package etcd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// contender is one of several kinds of clients in a queue. It acquires the lock,
// reports when it has it, and releases it when the test asks it to.
type contender struct {
	kind    string
	granted chan driver.Instant
	release func() error
}

// acquirer is one way to acquire a lock.
type acquirer func(ctx context.Context, granted chan<- driver.Instant, failed func(error)) (release func() error)

// queueSharedWithOthers has all kinds of clients in one queue, each kind as the
// first holder once.
func queueSharedWithOthers(t *testing.T) {
	cluster, client, root := shared(t)
	kinds := otherKinds(t, client, root)
	order := []string{"fairlock", "mutex", "election"}
	if tier.All() { // it has to be built
		kinds["etcdctl"] = etcdctlLock(t, cluster.Endpoints()[0])
		order = []string{"fairlock", "mutex", "etcdctl", "election"}
	}
	for first := range order {
		rotated := slices.Concat(order[first:], order[:first])
		t.Run(rotated[0]+"First", func(t *testing.T) {
			name := fmt.Sprintf("%s-%d", root, first)
			oneQueue(t, client, name, append(rotated, rotated...), func(kind string) acquirer { return kinds[kind](name) })
		})
	}
}

// otherKinds are the ways to acquire a lock that live in this process.
func otherKinds(t *testing.T, client *clientv3.Client, root string) map[string]func(name string) acquirer {
	fair := newClient(t, root, recipetest.CalmTTL)
	fair.opts.Layout = etcdbackend.LayoutConcurrency
	fair.open(t, client)
	// A session each: two Mutexes of one session on one name share the lock.
	others := func() *concurrency.Session {
		s, err := concurrency.NewSession(client, concurrency.WithTTL(10))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
	return map[string]func(name string) acquirer{
		"fairlock": func(name string) acquirer {
			var h *session.Hold
			return inBackground(func(ctx context.Context) (err error) {
				h, err = mutex.New(fair.Session, name).Lock(ctx)
				return err
			}, func(context.Context) error { recipetest.Unlock(t, h); return nil })
		},
		"mutex": func(name string) acquirer {
			m := concurrency.NewMutex(others(), name)
			return inBackground(m.Lock, m.Unlock)
		},
		"election": func(name string) acquirer {
			e := concurrency.NewElection(others(), name)
			return inBackground(func(ctx context.Context) error { return e.Campaign(ctx, "me") }, e.Resign)
		},
	}
}

func inBackground(lock, unlock func(context.Context) error) acquirer {
	return func(ctx context.Context, granted chan<- driver.Instant, failed func(error)) func() error {
		go func() {
			if err := lock(ctx); err != nil {
				failed(err)
				return
			}
			granted <- recipetest.Now()
		}()
		return func() error { return unlock(ctx) }
	}
}

// etcdctlLock runs the real program, which prints its key when it holds and
// releases the lock at a signal.
func etcdctlLock(t *testing.T, endpoint string) func(name string) acquirer {
	binary := both.Etcdctl(t)
	return func(name string) acquirer {
		return func(ctx context.Context, granted chan<- driver.Instant, failed func(error)) func() error {
			cmd := exec.CommandContext(ctx, binary, "--endpoints", endpoint, "lock", "--ttl", "10", name)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				failed(err)
				return nil
			}
			held := make(chan struct{})
			go func() { // ends with the process
				lines := bufio.NewScanner(stdout)
				if lines.Scan() {
					granted <- recipetest.Now()
					close(held)
				}
				for lines.Scan() { // until it closes its output
				}
				<-ctx.Done()
			}()
			return func() error {
				<-held
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					return err
				}
				if err := cmd.Wait(); err != nil {
					return fmt.Errorf("%w: %s", err, &stderr)
				}
				return nil
			}
		}
	}
}

// oneQueue lets clients join one after another and then release one after
// another, and checks that they were granted in the order of the create
// revisions of their keys, and one at a time.
func oneQueue(t *testing.T, client *clientv3.Client, name string, kinds []string, way func(kind string) acquirer) {
	ctx, cancel := context.WithCancel(recipetest.Bounded(t))
	defer cancel()
	monitor := watchPrefix(t, client, name+"/")
	var all []*contender
	for i, kind := range kinds {
		s := &contender{kind: kind, granted: make(chan driver.Instant, 1)}
		s.release = way(kind)(ctx, s.granted, func(err error) { t.Errorf("%s, number %d: %v", kind, i, err) })
		all = append(all, s)
		monitor.Sees(t, i+1)
	}
	tokens := monitor.Sees(t, len(kinds))
	var turns []worker.Turn
	for i, s := range all {
		u := worker.Turn{Token: tokens[i], Begin: recipetest.Wait(t, s.granted, fmt.Sprintf("a grant to %s, number %d", s.kind, i))}
		for j, other := range all[i+1:] {
			assert.Empty(t, other.granted, "%s, number %d, before its turn", other.kind, i+1+j)
		}
		u.End = recipetest.Now()
		require.NoError(t, s.release(), s.kind)
		turns = append(turns, u)
	}

	monitor.CheckTurns(t, turns, false)
}

package concurrency_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcd "go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/compat/concurrency"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// workerEnv makes this program a worker: its kind, and after a blank where etcd is.
const workerEnv = "FAIRLOCK_CONCURRENCY_WORKER"

// queue is the lock of the workers.
const queue = "/orders/settle/"

// lockable is a lock of either package.
type lockable interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// candidate is an election of either package as a lock.
type candidate struct {
	campaign func(ctx context.Context, val string) error
	resign   func(ctx context.Context) error
}

func (c candidate) Lock(ctx context.Context) error   { return c.campaign(ctx, "worker") }
func (c candidate) Unlock(ctx context.Context) error { return c.resign(ctx) }

// kinds are the programs that share a queue: before and after a change of one import, and in the
// order in which they come for it.
var kinds = []string{"old mutex", "new mutex", "new election", "old election", "new mutex", "old mutex", "old election", "new election"}

// work is a worker. It locks, shows that by the revision of etcd, waits for the end of its input,
// and unlocks.
func work() int {
	kind, endpoint, _ := strings.Cut(os.Getenv(workerEnv), "@")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err == nil {
		err = worked(client, kind)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, kind, err)
		return 1
	}
	return 0
}

func worked(client *clientv3.Client, kind string) error {
	ctx := context.Background()
	l, closes, err := lockOf(client, kind)
	if err != nil {
		return err
	}
	if err := l.Lock(ctx); err != nil {
		return err
	}
	resp, err := client.Get(ctx, queue)
	if err != nil {
		return err
	}
	fmt.Println(resp.Header.Revision)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	return closes()
}

func lockOf(client *clientv3.Client, kind string) (l lockable, closes func() error, err error) {
	if strings.HasPrefix(kind, "old") {
		s, err := etcd.NewSession(client)
		if err != nil {
			return nil, nil, err
		}
		if kind == "old mutex" {
			return etcd.NewMutex(s, queue), s.Close, nil
		}
		e := etcd.NewElection(s, queue)
		return candidate{e.Campaign, e.Resign}, s.Close, nil
	}
	s, err := concurrency.NewSession(client)
	if err != nil {
		return nil, nil, err
	}
	if kind == "new mutex" {
		return concurrency.NewMutex(s, queue), s.Close, nil
	}
	e := concurrency.NewElection(s, queue)
	return candidate{e.Campaign, e.Resign}, s.Close, nil
}

// process is a running worker.
type process struct {
	cmd   *exec.Cmd
	input io.Closer
	shown <-chan int64 // the revision at which it has locked
}

func start(t *testing.T, kind, endpoint string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // it is this program
	cmd.Env = append(os.Environ(), workerEnv+"="+kind+"@"+endpoint)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	shown := make(chan int64, 1)
	go func() { // ends with the process
		defer close(shown)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var rev int64
			_, err := fmt.Sscan(lines.Text(), &rev)
			if err == nil {
				shown <- rev
			}
		}
	}()
	return &process{cmd, in, shown}
}

// TestOldAndNewProcessesTakeTurnsInOneQueue: a process of each kind is each time the first, and
// all lock in the order in which they came.
func TestOldAndNewProcessesTakeTurnsInOneQueue(t *testing.T) {
	f := newFixture(t, nil)
	all := make([]*process, 0, len(kinds))
	for i, kind := range kinds {
		all = append(all, start(t, kind, f.cluster.Endpoints()[0]))
		f.queued(queue+"/", i+1)
	}
	order := f.keys(queue + "/")
	require.Len(t, order, len(kinds))

	var released int64
	for i, p := range all {
		locked := recipetest.Wait(t, p.shown, kinds[i]+" locks")
		assert.GreaterOrEqual(t, locked, released, "%s, before the one ahead has released", kinds[i])
		assert.Equal(t, order[i:], f.keys(queue+"/"), "%s holds, and no later one has come before it", kinds[i])
		for j, later := range all[i+1:] {
			assert.Empty(t, later.shown, "%s holds, and %s too", kinds[i], kinds[i+1+j])
		}
		require.NoError(t, p.input.Close())
		require.NoError(t, p.cmd.Wait(), kinds[i])
		released = f.deleted(order[i])
	}
	assert.Empty(t, f.keys(queue+"/"))
}

// deleted returns the revision at which a key was deleted.
func (f *fixture) deleted(key string) int64 {
	f.t.Helper()
	for w := range f.client.Watch(f.soon(), key, clientv3.WithRev(1)) {
		require.NoError(f.t, w.Err())
		for _, ev := range w.Events {
			if ev.Type == mvccpb.Event_DELETE {
				return ev.Kv.ModRevision
			}
		}
	}
	require.Fail(f.t, "the key was not deleted", key)
	return 0
}

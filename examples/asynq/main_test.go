//go:build unix

package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
)

// env makes the test's program a replica.
const env = "FAIRLOCK_EXAMPLE_REPLICA"

func TestMain(m *testing.M) {
	if os.Getenv(env) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// replica is a process of the example.
type replica struct {
	*exec.Cmd
	out progtest.Buffer
}

func start(t *testing.T, redis *redistest.Server, name string) *replica {
	t.Helper()
	r := &replica{Cmd: exec.CommandContext(t.Context(), os.Args[0], "-redis", redis.Addr(), "-name", name)}
	r.Env = append(os.Environ(), env+"=1")
	r.Stdout, r.Stderr = &r.out, &r.out
	require.NoError(t, r.Start())
	t.Cleanup(func() {
		_ = r.Process.Kill()
		if t.Failed() {
			t.Logf("%s wrote: %s", name, &r.out)
		}
	})
	return r
}

// enqueued returns the tasks that the replica has reported.
func (r *replica) enqueued() (ids []string) {
	for line := range strings.Lines(r.out.String()) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "enqueued report "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestOneReplicaEnqueues: three replicas lead one after the other, after a kill and a shutdown.
func TestOneReplicaEnqueues(t *testing.T) {
	redis := redistest.New(t, nil)
	require.NoError(t, redisbackend.InitURL(t.Context(), redis.URL(), nil))
	replicas := []*replica{start(t, redis, "one"), start(t, redis, "two"), start(t, redis, "three")}
	var led []*replica
	for i := range replicas {
		leading := func() *replica { // nil: none of those that are left has enqueued three tasks
			for _, r := range replicas {
				if !slices.Contains(led, r) && len(r.enqueued()) >= 3 {
					return r
				}
			}
			return nil
		}
		hang.Until(t, func() bool { return leading() != nil }, "a replica leads")
		leader := leading()
		led = append(led, leader)
		if i == 0 {
			require.NoError(t, leader.Process.Kill())
			_ = leader.Wait()
			continue
		}
		require.NoError(t, leader.Process.Signal(syscall.SIGTERM))
		require.NoError(t, leader.Wait(), "SIGTERM is no failure")
	}

	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer inspector.Close()
	tasks, err := inspector.ListPendingTasks("default", asynq.PageSize(1000)) // the oldest first
	require.NoError(t, err)
	by := map[string]*replica{} // the replica that has reported a task
	for _, r := range replicas {
		for _, id := range r.enqueued() {
			require.Nil(t, by[id])
			by[id] = r
		}
	}
	leaders := map[int]*replica{} // of each token
	last, unreported := 0, 0
	for _, task := range tasks {
		token, err := strconv.Atoi(string(task.Payload))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, token, last, "a replica has enqueued after the next one led")
		last = token
		switch r := by[task.ID]; {
		case r == nil:
			unreported++
		case leaders[token] == nil:
			leaders[token] = r
		default:
			assert.Same(t, leaders[token], r, "two replicas have enqueued with one token")
		}
	}
	assert.LessOrEqual(t, unreported, 1, "of the replica that was killed")
	assert.Len(t, tasks, len(by)+unreported)
}

package itest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// childEnv makes this test binary a client process; its value is a job.
const childEnv = "FAIRLOCK_ITEST_CHILD"

// job says what a client process is to do.
type job struct {
	Do        string // "turns" or "hold"
	Endpoints []string
	Root      string
	Name      string
	TTL       time.Duration
	Turns     int
	Key       string // that the holder is to write
}

// heldReport is what a holder says when it holds.
type heldReport struct{ Token int64 }

// writeReport is what a holder says after it was told to write.
type writeReport struct {
	Before bool // the write guarded by what was asked for right after Lock went through
	After  bool // the same with the guard asked for now
	Valid  time.Duration
	Cause  string        // of the end of the hold's context
	IsLost bool          // the cause is session.ErrLost
	Unlock bool          // Unlock returned session.ErrLost
	Told   time.Duration // from the first look at the hold until its context ended
}

// runChild is the main function of a client process.
func runChild(arg string) int {
	var j job
	err := json.Unmarshal([]byte(arg), &j)
	if err == nil {
		err = j.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (j job) run() error {
	client, err := clientv3.New(clientv3.Config{Endpoints: j.Endpoints, DialTimeout: patience})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{Root: j.Root, Session: session.Options{TTL: j.TTL}})
	if err != nil {
		return err
	}
	if j.Do == "hold" {
		err = j.hold(ctx, s, client)
	} else {
		err = j.takeTurns(ctx, s)
	}
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return err
}

// takeTurns locks and unlocks, and reports every turn.
func (j job) takeTurns(ctx context.Context, s *session.Session) error {
	m := mutex.New(s, j.Name)
	out := json.NewEncoder(os.Stdout)
	for range j.Turns {
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		u := turn{Token: int64(h.Token()), PID: os.Getpid(), Begin: now()}
		u.End = now()
		if err := h.Unlock(); err != nil {
			return err
		}
		if err := out.Encode(u); err != nil {
			return err
		}
	}
	return nil
}

// hold locks, reports that, waits to be told to write, writes under the lock,
// and reports what came of it.
func (j job) hold(ctx context.Context, s *session.Session, client *clientv3.Client) error {
	h, err := mutex.New(s, j.Name).Lock(ctx)
	if err != nil {
		return err
	}
	early := etcdbackend.Guard(h)
	out, in := json.NewEncoder(os.Stdout), bufio.NewReader(os.Stdin)
	if err := out.Encode(heldReport{int64(h.Token())}); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err // the parent is gone
	}
	woke := now()
	r := writeReport{}
	if r.Before, err = guarded(ctx, client, early, j.Key, "late"); err != nil {
		return err
	}
	if r.After, err = guarded(ctx, client, etcdbackend.Guard(h), j.Key, "later"); err != nil {
		return err
	}
	r.Valid = h.Valid()
	select {
	case <-h.Context().Done():
		r.Cause = context.Cause(h.Context()).Error()
		r.IsLost = errors.Is(context.Cause(h.Context()), session.ErrLost)
		r.Told = now().Sub(woke)
	case <-time.After(patience):
	}
	r.Unlock = errors.Is(h.Unlock(), session.ErrLost)
	return out.Encode(r)
}

// guarded writes a key if the guard holds, and says whether it did.
func guarded(ctx context.Context, client *clientv3.Client, guard []clientv3.Cmp, key, value string) (bool, error) {
	resp, err := client.Txn(ctx).If(guard...).Then(clientv3.OpPut(key, value)).Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

// child is a client process.
type child struct {
	cmd    *exec.Cmd
	in     *json.Encoder
	out    *json.Decoder
	stderr bytes.Buffer
}

// start starts a client process. It is killed at the latest when the test ends.
func (j job) start(t testing.TB) *child {
	t.Helper()
	arg, err := json.Marshal(j)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{cmd: exec.CommandContext(t.Context(), self)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(arg))
	c.cmd.Stderr = &c.stderr
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	c.in, c.out = json.NewEncoder(stdin), json.NewDecoder(stdout)
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
		if t.Failed() && c.stderr.Len() > 0 {
			t.Logf("process %d said: %s", c.cmd.Process.Pid, c.stderr.String())
		}
	})
	return c
}

// TestTwentyProcessesTakeTurnsInOrder and the next test are alone on the
// machine, unlike the stories: they keep it busy.
func TestTwentyProcessesTakeTurnsInOrder(t *testing.T) {
	const processes, each = 20, 10
	cluster, client, root := shared.use(t)
	witness := watchPrefix(t, client, root+"/")
	var children []*child
	for range processes {
		children = append(children, job{
			Do: "turns", Endpoints: cluster.Endpoints(), Root: root, Name: "x", TTL: calmTTL, Turns: each,
		}.start(t))
	}
	var turns []turn
	pids := map[int]bool{}
	for _, c := range children {
		for range each {
			var u turn
			require.NoError(t, c.out.Decode(&u), "%s", &c.stderr)
			turns = append(turns, u)
			pids[u.PID] = true
		}
		require.NoError(t, c.cmd.Wait(), "%s", &c.stderr)
	}

	assert.Len(t, pids, processes)
	require.Len(t, turns, processes*each)
	checkTurns(t, witness, turns)
	logPace(t, turns)
}

func TestAHundredGoroutinesTakeTurnsInOrder(t *testing.T) {
	const goroutines, each = 100, 5
	_, client, root := shared.use(t)
	witness := watchPrefix(t, client, root+"/")
	p := newParty(t, root, calmTTL).open(t, client)
	m := mutex.New(p.Session, "x")
	reports := make(chan turn, goroutines*each)
	for range goroutines {
		go func() { // ends with its turns, or with the Session
			for range each {
				_ = m.Do(context.Background(), func(_ context.Context, h *session.Hold) error {
					begin := now()
					reports <- turn{Token: int64(h.Token()), Begin: begin, End: now()}
					return nil
				})
			}
		}()
	}
	var turns []turn
	for range goroutines * each {
		turns = append(turns, wait(t, reports, "a turn"))
	}

	p.kept(t)
	checkTurns(t, witness, turns)
	logPace(t, turns)
}

// logPace tells how fast it went; checkTurns has sorted the turns.
func logPace(t testing.TB, turns []turn) {
	var longest time.Duration
	switches := 0
	for i := range turns[1:] {
		longest = max(longest, turns[i+1].Begin.Sub(turns[i].End))
		if turns[i].PID != turns[i+1].PID {
			switches++
		}
	}
	all := turns[len(turns)-1].End.Sub(turns[0].Begin)
	t.Logf("%d turns in %s, longest pause %s, from one process to another %d times", len(turns), all, longest, switches)
}

func stoppedHolderIsRefused(t *testing.T) {
	const ttl = 2 * time.Second
	cluster, client, root := shared.use(t)
	witness := watchPrefix(t, client, root+"/x/")
	key := root + "-result"
	old := job{Do: "hold", Endpoints: cluster.Endpoints(), Root: root, Name: "x", TTL: ttl, Key: key}.start(t)
	var held heldReport
	require.NoError(t, old.out.Decode(&held), "%s", &old.stderr)
	p := newParty(t, root, calmTTL).open(t, client)
	next := p.ask(bounded(t), "x")
	witness.sees(t, 2)

	stopped := now()
	stopProcess(t, old.cmd.Process.Pid)
	h := next.granted(t)
	gone := witness.seesEnd(t, session.Token(held.Token))
	ok, err := guarded(bounded(t), client, etcdbackend.Guard(h), key, "in time")
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, old.in.Encode("write")) // it reads that first when it goes on
	continueProcess(t, old.cmd.Process.Pid)
	var r writeReport
	require.NoError(t, old.out.Decode(&r), "%s", &old.stderr)
	require.NoError(t, old.cmd.Wait(), "%s", &old.stderr)

	assert.False(t, r.Before, "write under the guard that was right once")
	assert.False(t, r.After, "write under the guard of a lost hold")
	assert.Zero(t, r.Valid)
	assert.True(t, r.IsLost)
	assert.True(t, r.Unlock, "Unlock returned ErrLost")
	assert.Greater(t, int64(h.Token()), held.Token)
	ok, err = guarded(bounded(t), client, etcdbackend.Guard(h), key, "still in time")
	require.NoError(t, err)
	assert.True(t, ok)
	value, err := client.Get(bounded(t), key)
	require.NoError(t, err)
	assert.Equal(t, "still in time", string(value.Kvs[0].Value))
	assert.EqualValues(t, 2, value.Kvs[0].Version, "writes that went through")
	t.Logf("stopped holder's entry gone after %s, next granted %s later; the holder knew %s after it went on: %s",
		gone.Sub(stopped), next.at.Sub(gone), r.Told, r.Cause)
	require.NoError(t, h.Unlock())
	p.kept(t)
	witness.seesNothingLeft(t)
}

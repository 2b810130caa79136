package leaderelection

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

const (
	ttl = 5 * time.Second // of a leader that is to lose the leadership

	// long is the TTL of a session for whose end no candidate waits.
	long = maxTTL
)

// trial is an election with candidates a, b and c, which campaign in this order.
type trial struct {
	t    *testing.T
	host string
	job  job
	addr string // of the service, in the URL
	e    *election.Election
	all  []*process.Process
	out  []*json.Decoder
}

// attempts bounds how often a trial begins anew.
const attempts = 10

// onAll runs a test for each host on each service. If not all cases are to run, each host is on one
// service, in turn. The test begins anew, with another election, when it returns false.
func onAll(t *testing.T, test func(t *trial) bool) {
	t.Helper()
	for host := range hosts {
		for _, service := range tier.Pick(t.Name()+host, "etcd", "postgres", "redis", "zk") {
			t.Run(host+"/"+service, func(t *testing.T) {
				t.Parallel()
				url, addr := services[service](t)
				s, err := open(hang.Context(t), url, long)
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, s.Close()) })
				for i := range attempts {
					name := fmt.Sprint(strings.ReplaceAll(t.Name(), "/", "-"), i)
					log := filepath.Join(t.TempDir(), "log")
					require.NoError(t, os.WriteFile(log, nil, 0o600))
					tr := &trial{t: t, host: host, job: job{Host: host, URL: url, Election: name, Log: log}, addr: addr, e: election.New(s, name)}
					if test(tr) {
						tr.judge()
						return
					}
					t.Log("the machine is slow: the first candidate has lost the leadership before the fault")
					for _, p := range tr.all {
						p.Halt()
					}
				}
				t.Fatal("the first candidate has never led until the fault")
			})
		}
	}
}

// begin starts the candidates, the first one by way of an address of the service. It leads.
func (tr *trial) begin(ttl time.Duration, addr string) {
	tr.t.Helper()
	tr.start(ttl, addr)
	tr.leads("a")
	tr.start(long, tr.addr)
	tr.start(long, tr.addr)
}

// early reports whether the machine was so slow that the first candidate has lost the leadership
// before the fault, which its TTL is short for.
func (tr *trial) early() bool {
	tr.t.Helper()
	return tr.noted(worked, "a")
}

// start starts the next candidate, by way of an address of the service, and waits for its campaign.
func (tr *trial) start(ttl time.Duration, addr string) {
	tr.t.Helper()
	j := tr.job
	j.ID, j.TTL, j.URL = string(rune('a'+len(tr.all))), ttl, strings.Replace(j.URL, tr.addr, addr, 1)
	text, err := json.Marshal(j)
	require.NoError(tr.t, err)
	cmd, err := process.Self(tr.t.Context(), env, string(text))
	require.NoError(tr.t, err)
	p := process.StartPiped(cmd)
	tr.t.Cleanup(func() {
		p.Halt()
		if tr.t.Failed() {
			tr.t.Logf("candidate %s wrote: %s", j.ID, p.Stderr())
		}
	})
	tr.all, tr.out = append(tr.all, p), append(tr.out, json.NewDecoder(p))
	require.True(tr.t, tr.read(len(tr.all)-1).Ready)
	hang.Until(tr.t, func() bool {
		queue, err := tr.e.Queue(tr.t.Context())
		require.NoError(tr.t, err)
		return slices.ContainsFunc(queue, func(e session.Entry) bool { return e.Value == j.ID })
	}, "candidate %s campaigns", j.ID)
}

// read returns the next answer of a candidate.
func (tr *trial) read(i int) (a answer) {
	tr.t.Helper()
	require.NoError(tr.t, tr.out[i].Decode(&a), tr.all[i].Stderr())
	return a
}

// send writes a command to a candidate.
func (tr *trial) send(i int, command string) {
	tr.t.Helper()
	require.NoError(tr.t, json.NewEncoder(tr.all[i]).Encode(command))
}

// ask asks a candidate.
func (tr *trial) ask(i int) answer {
	tr.t.Helper()
	tr.send(i, "ask")
	return tr.read(i)
}

// note appends a line to the notes of the candidates.
func (tr *trial) note(kind, id string) {
	tr.t.Helper()
	f, err := os.OpenFile(tr.job.Log, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(tr.t, err)
	_, err = fmt.Fprintln(f, kind, id, 0)
	require.NoError(tr.t, err)
	require.NoError(tr.t, f.Close())
}

// notes returns all notes, in order.
func (tr *trial) notes() []string {
	tr.t.Helper()
	text, err := os.ReadFile(tr.job.Log)
	require.NoError(tr.t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// noted reports whether there is a note of a candidate.
func (tr *trial) noted(kind, id string) bool {
	tr.t.Helper()
	return slices.ContainsFunc(tr.notes(), func(n string) bool { return strings.HasPrefix(n, kind+" "+id+" ") })
}

// leads waits until a candidate leads.
func (tr *trial) leads(id string) {
	tr.t.Helper()
	hang.Until(tr.t, func() bool { return tr.noted(started, id) }, "%s leads", id)
}

// ends waits until a candidate has resigned, or stopped after a loss.
func (tr *trial) ends(id string) {
	tr.t.Helper()
	hang.Until(tr.t, func() bool { return tr.noted(ended, id) }, "%s has ended", id)
}

// finish ends the candidates from one on gracefully, in turn. They log nothing.
func (tr *trial) finish(from int) {
	tr.t.Helper()
	for i := from; i < len(tr.all); i++ {
		id := string(rune('a' + i))
		tr.leads(id)
		a := tr.ask(i)
		assert.True(tr.t, a.Leads && a.Healthy, id)
		tr.send(i, "stop")
		tr.ends(id)
		tr.exits(i)
	}
}

// known are lines that others log at a graceful end: redisbackend when its connections are closed, and
// a manager always.
var known = []string{"use of closed network connection", "error received after stop sequence was engaged"}

// exits ends the process of a candidate that has ended gracefully. It has logged nothing else.
func (tr *trial) exits(i int) {
	tr.t.Helper()
	a := tr.ask(i)
	assert.True(tr.t, a.Ended)
	assert.Empty(tr.t, a.Error)
	tr.all[i].CloseInput()
	require.NoError(tr.t, tr.all[i].Wait())
	for line := range strings.Lines(tr.all[i].Stderr()) {
		assert.True(tr.t, slices.ContainsFunc(known, func(k string) bool { return strings.Contains(line, k) }), line)
	}
}

// gone are notes of this test: from then on, the candidate does not act as a leader.
const gone = "gone"

// judge goes through the notes: each candidate leads once, in the order a, b, c, with a token that
// rises, when the leader before has worked and has stopped.
func (tr *trial) judge() {
	tr.t.Helper()
	var leaders []string
	leader, running, token := "", false, 0
	for _, n := range tr.notes() {
		var kind, id string
		var with int
		_, err := fmt.Sscan(n, &kind, &id, &with)
		require.NoError(tr.t, err, n)
		switch {
		case kind == started:
			assert.Empty(tr.t, leader, "%s leads beside it: %s", id, tr.notes())
			assert.False(tr.t, running, "OnStoppedLeading comes late: %s", tr.notes())
			assert.Greater(tr.t, with, token, tr.notes())
			leaders = append(leaders, id)
			leader, running, token = id, tr.host != "manager", with // a manager keeps OnStoppedLeading to itself
		case id != leader && (len(leaders) == 0 || id != leaders[len(leaders)-1]):
		case kind == gone:
			leader, running = "", false
		case kind == worked:
			leader = ""
		case kind == stopped:
			running = false
		}
	}
	assert.Equal(tr.t, []string{"a", "b", "c"}, leaders, tr.notes())
	assert.Empty(tr.t, leader)
}

func TestAGracefulEndHandsOverAtOnce(t *testing.T) {
	onAll(t, func(tr *trial) bool {
		tr.begin(long, tr.addr)
		assert.False(tr.t, tr.ask(1).Leads)
		assert.True(tr.t, tr.ask(1).Healthy)
		began := time.Now()
		tr.send(0, "stop")
		tr.leads("b")
		tr.t.Logf("the next one led after %v", time.Since(began))
		tr.finish(1)
		tr.exits(0)
		return true
	})
}

func TestAKilledLeaderIsFollowedAfterItsTTL(t *testing.T) {
	onAll(t, func(tr *trial) bool {
		tr.begin(ttl, tr.addr)
		tr.note(gone, "a")
		began := time.Now()
		tr.all[0].Halt()
		if tr.early() {
			return false
		}
		tr.leads("b")
		tr.t.Logf("the next one led after %v", time.Since(began))
		tr.finish(1)
		return true
	})
}

func TestALeaderThatIsCutOffStopsBeforeTheNextOneStarts(t *testing.T) {
	onAll(t, func(tr *trial) bool {
		proxy, err := testnet.New(tr.addr, nil)
		require.NoError(tr.t, err)
		tr.t.Cleanup(func() { assert.NoError(tr.t, proxy.Close()) })
		tr.begin(ttl, proxy.Addr())
		proxy.Hold(fault.Both)
		if tr.early() {
			return false
		}
		tr.leads("b")
		a := tr.ask(0)
		assert.False(tr.t, a.Leads)
		proxy.Heal(fault.Both)
		tr.finish(1)
		tr.ends("a")
		assert.True(tr.t, tr.ask(0).Lost)
		return true
	})
}

func TestAStoppedProcessLeadsNoMoreWhenItContinues(t *testing.T) {
	onAll(t, func(tr *trial) bool {
		tr.begin(ttl, tr.addr)
		tr.note(gone, "a")
		require.NoError(tr.t, tr.all[0].Pause())
		if tr.early() {
			return false
		}
		tr.leads("b")
		tr.send(0, "ask") // it is answered before or after timers have fired
		require.NoError(tr.t, tr.all[0].Resume())
		assert.False(tr.t, tr.read(0).Leads)
		tr.ends("a")
		assert.True(tr.t, tr.ask(0).Lost)
		assert.True(tr.t, tr.noted(worked, "a"))
		tr.finish(1)
		return true
	})
}

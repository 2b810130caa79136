package command

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zktest"
)

var (
	cutoffFlag = flag.Int("cutoff", 2, "how many trials of each fault there are on each service")
	pageFlag   = flag.String("cutoff-page", "", "a page to write the tables into")
)

// trialTTL is the TTL of all sessions in the trials. With a shorter one, little time would be
// left after ZooKeeper's heartbeats on an ensemble.
const trialTTL = 3 * time.Second

// servers are the three servers that all trials share, or the one of PostgreSQL or of Redis, each trial through
// its own proxies.
type servers struct {
	scheme, query string // scheme may have a login behind it
	hosts         []string
	s             *session.Session // to read queues, without a proxy
}

func (x *servers) url(hosts []string) string {
	scheme, login, _ := strings.Cut(x.scheme, "://")
	return scheme + "://" + login + strings.Join(hosts, ",") + x.query
}

// clusters are the services of the trials, by their names.
func clusters() map[string]func(t *testing.T) *servers {
	return map[string]func(t *testing.T) *servers{
		"etcd": func(t *testing.T) *servers {
			x := &servers{scheme: "etcd"}
			for _, e := range etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true}).Endpoints() {
				x.hosts = append(x.hosts, strings.TrimPrefix(e, "http://"))
			}
			return x
		},
		"ZooKeeper": func(t *testing.T) *servers {
			return &servers{scheme: "zk", query: "?tick=100ms", hosts: zktest.New(t, &zktest.Options{Members: 3}).Endpoints()}
		},
		"PostgreSQL": func(t *testing.T) *servers {
			p, _ := newPostgres(t, nil)
			return &servers{scheme: "postgres://postgres@", query: "/postgres", hosts: []string{p.Addr()}}
		},
		"Redis": func(t *testing.T) *servers {
			r, _ := newRedis(t, nil)
			return &servers{scheme: "redis", hosts: []string{r.Addr()}}
		},
	}
}

// The trials of "make cutoff", a few of each.
func TestInEveryCutOffTheCommandIsDeadBeforeTheNextStarts(t *testing.T) {
	t.Parallel()
	began, of := time.Now(), commit() // read now: the checkout may change during the trials
	all := map[string][]*outcome{}
	t.Run("on", func(t *testing.T) { // returns when all trials have ended
		for _, name := range tier.Pick(t.Name(), "etcd", "ZooKeeper", "PostgreSQL", "Redis") {
			var outcomes []*outcome
			for first, f := range faults() {
				n := *cutoffFlag
				if f.control {
					n = (n + 9) / 10
				}
				for i := range n {
					all := kinds(f)
					outcomes = append(outcomes, &outcome{faultCase: f, kind: all[(first+i)%len(all)], number: i})
				}
			}
			all[name] = outcomes
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x := clusters()[name](t)
				x.s = openSession(t, x.url(x.hosts), "")
				for _, o := range outcomes {
					t.Run(fmt.Sprintf("%s/%d", o.name, o.number), func(t *testing.T) {
						t.Parallel()
						o.run(t, x)
					})
				}
			})
		}
	})
	for name, of := range all {
		for _, f := range faults() {
			was := slices.DeleteFunc(slices.Clone(of), func(o *outcome) bool { return !o.over || o.name != f.name })
			if f.stops && !f.control && len(was) > 0 {
				assert.True(t, slices.ContainsFunc(was, func(o *outcome) bool { return o.stop > 0 }), "no command got SIGTERM: %s, %s", name, f.name)
			}
		}
	}
	tables := resultTables(all, of, began)
	t.Log("\n" + tables)
	if *pageFlag != "" {
		require.NoError(t, intoPage(*pageFlag, tables))
	}
}

// outcome is the result of a trial. Times are relative to the fault.
type outcome struct {
	faultCase
	kind

	number int
	again  int           // how often the trial was repeated, see run
	stop   time.Duration // the command, or its child, got SIGTERM; 0 if it did not
	dead   time.Duration // the last sign of life of the command or its child
	next   time.Duration // the next command's first instruction
	found  string        // what the next command found before it: alone, dying or overlap
	saw    string        // details of that
	code   int           // of the supervisor
	over   bool          // the trial is complete
}

// overlaps reports whether two commands ran at the same time.
func (o *outcome) overlaps() bool { return o.next <= o.dead || o.found == "overlap" }

// run runs the trial. On a busy machine the supervisor can lose its lock before the fault or
// end before it is complete, and the next one can lose its own before its command began. Then
// run repeats the trial.
func (o *outcome) run(t *testing.T, x *servers) {
	const attempts = 10
	for o.again = range attempts {
		if v := o.attempt(t, x); v != nil {
			o.over = true
			o.check(t, v)
			return
		}
	}
	require.Fail(t, "the trial had to be repeated every time")
}

// attempt runs the trial once. It returns nil if the trial must be repeated.
func (o *outcome) attempt(t *testing.T, x *servers) *victim {
	dir, clock := t.TempDir(), driver.SystemClock()
	lock := fmt.Sprintf("%s/%d/%d", strings.ReplaceAll(o.name, " ", "-"), o.number, o.again)
	v := startVictim(t, x, o.faultCase, lock, o.command(dir))
	next := begin(t, x.url(x.hosts), append([]string{"run", "--ttl", trialTTL.String(), lock, "--"}, beat(dir, "-next")...)...)
	hang.Until(t, func() bool {
		entries, err := x.s.Queue(t.Context(), lock)
		return err == nil && len(entries) == 2 || !v.healthy()
	}, "two entries in the queue")
	// Renewals are more frequent than that, so the fault comes at a random time between two.
	driver.Sleep(t.Context(), clock, rand.N(trialTTL/2))
	if !v.healthy() {
		return nil
	}

	at := clock.Now()
	if o.inject(v); v.late {
		return nil
	}

	next.code(t) // the code is ignored: on a busy machine it may lose its own lock
	met := o.met(v)
	if o.heal != nil {
		o.heal(v)
	}
	if o.control {
		require.NoError(t, v.Process.Kill())
	}
	o.code = v.code(t)
	o.read(t, filepath.Join(dir, "signs"), at)
	if o.found == "" { // the next command did not run
		t.Logf("the next command did not begin: %s", &next.err)
		return nil
	}
	if o.stop < 0 || o.next < 0 || o.dead == 0 && !o.killed { // the lock was lost at the moment of the fault
		return nil
	}
	assert.True(t, met, "the fault had no effect")
	return v
}

// check checks the outcome.
func (o *outcome) check(t *testing.T, v *victim) {
	if o.control {
		assert.Less(t, o.next, o.dead, "the signs of life do not show the overlap")
		assert.Equal(t, "overlap", o.found, "the lock of the file does not show the overlap")
		return
	}
	assert.Less(t, o.dead, o.next, "the command lived when the next one started")
	assert.NotEqual(t, "overlap", o.found, "the command lived when the next one started, by the kernel's status: %s", o.saw)
	if !o.killed {
		assert.Equal(t, 79, o.code, v.err.String())
		assert.Contains(t, v.err.String(), "lost the lock, and the command is dead")
	}
}

// read reads the times from the signs of life.
func (o *outcome) read(t *testing.T, file string, at driver.Instant) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	o.stop, o.dead, o.next, o.found = 0, 0, 0, ""
	for _, sign := range rows(string(text)) {
		f := strings.Fields(sign)
		require.GreaterOrEqual(t, len(f), 4, "%q", sign)
		n, err := strconv.ParseInt(f[0], 10, 64)
		require.NoError(t, err)
		since := driver.Instant(n).Sub(at)
		if f[1] == "next" {
			o.next, o.found, o.saw = since, f[3], sign
			continue
		}
		o.dead = max(o.dead, since)
		if f[3] == "stop" && (o.stop == 0 || since < o.stop) {
			o.stop = since
		}
	}
}

// kind is the kind of a command: which of the command and its child ignore SIGTERM.
type kind struct{ deaf, deafChild bool }

// kinds returns the commands for the trials of a fault, in turn.
func kinds(f faultCase) []kind {
	all := []kind{{}, {deaf: true, deafChild: true}, {deafChild: true}}
	return slices.DeleteFunc(all, func(k kind) bool { return f.deafOnly && !k.deaf })
}

func (k kind) command(dir string) []string {
	args := []string{"-child", "mortal"}
	if k.deafChild {
		args[1] = "deaf"
	}
	if k.deaf {
		args = append(args, "-deaf")
	}
	return beat(dir, args...)
}

// beat returns a command that writes signs of life, or checks for them.
func beat(dir string, args ...string) []string {
	exe := filepath.Join(filepath.Dir(os.Getenv(binaryEnv)), "beat")
	return append([]string{exe, "-signs", filepath.Join(dir, "signs"), "-alone", filepath.Join(dir, "alone")}, args...)
}

package itest

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
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zktest"
)

var (
	cutoffFlag = flag.Int("cutoff", 2, "how many trials of each fault there are on each service")
	pageFlag   = flag.String("cutoff-page", "", "a page to draw the trials into")
)

// trialTTL is that of all sessions in the trials. Of less, ZooKeeper's heartbeats
// on an ensemble would leave little.
const trialTTL = 3 * time.Second

// servers are three that all trials share, each through proxies of its own.
type servers struct {
	scheme, query string
	hosts         []string
	s             *session.Session // to look at lines, past all proxies
}

func (x *servers) url(hosts []string) string {
	return x.scheme + "://" + strings.Join(hosts, ",") + x.query
}

// clusters are the services of the trials, by the name that people know.
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
	}
}

// The trials of "make cutoff", a few of each.
func TestInEveryCutOffTheCommandIsDeadBeforeTheNextStarts(t *testing.T) {
	t.Parallel()
	began, of := time.Now(), commit() // what is checked out now, whatever is later
	all := map[string][]*outcome{}
	t.Run("on", func(t *testing.T) { // returns when all have
		for _, name := range tier.Pick(t.Name(), "etcd", "ZooKeeper") {
			var drawn []*outcome
			for first, f := range faults() {
				n := *cutoffFlag
				if f.control {
					n = (n + 9) / 10
				}
				for i := range n {
					all := kinds(f)
					drawn = append(drawn, &outcome{harm: f, kind: all[(first+i)%len(all)], number: i})
				}
			}
			all[name] = drawn
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x := clusters()[name](t)
				x.s = visit(t, x.url(x.hosts), "")
				for _, o := range drawn {
					t.Run(fmt.Sprintf("%s/%d", o.name, o.number), func(t *testing.T) {
						t.Parallel()
						o.play(t, x)
					})
				}
			})
		}
	})
	for name, of := range all {
		for _, f := range faults() {
			was := slices.DeleteFunc(slices.Clone(of), func(o *outcome) bool { return !o.over || o.name != f.name })
			if f.hears && !f.control && len(was) > 0 {
				assert.True(t, slices.ContainsFunc(was, func(o *outcome) bool { return o.told > 0 }), "nobody was told to stop: %s, %s", name, f.name)
			}
		}
	}
	tables := draw(all, of, began)
	t.Log("\n" + tables)
	if *pageFlag != "" {
		require.NoError(t, intoPage(*pageFlag, tables))
	}
}

// outcome is what came of a trial. Times are since the fault.
type outcome struct {
	harm
	kind

	number int
	again  int           // how often it had to begin anew, see play
	told   time.Duration // the command, or its child, heard SIGTERM; 0 if it did not
	dead   time.Duration // the last sign of life of either
	next   time.Duration // the next command's first instruction
	found  string        // what it found of those before: alone, dying or beside
	saw    string        // more of that, for people
	code   int           // of the supervisor
	over   bool          // all of the above is known
}

// beside says that two ran at once.
func (o *outcome) beside() bool { return o.next <= o.dead || o.found == "beside" }

// play is one trial. Where load alone has cost the supervisor its lock before the
// fault came, there was nothing to befall, and where it has cost the next one its
// own before its command began, nobody looked; then it is played again.
func (o *outcome) play(t *testing.T, x *servers) {
	const often = 10
	for o.again = range often {
		if v := o.attempt(t, x); v != nil {
			o.over = true
			o.judge(t, v)
			return
		}
	}
	require.Fail(t, "it always had to begin anew")
}

// attempt is one, nil if it is to be played again.
func (o *outcome) attempt(t *testing.T, x *servers) *victim {
	dir, clock := t.TempDir(), driver.SystemClock()
	lock := fmt.Sprintf("%s/%d/%d", strings.ReplaceAll(o.name, " ", "-"), o.number, o.again)
	v := meet(t, x, o.harm, lock, o.command(dir))
	next := begin(t, x.url(x.hosts), append([]string{"run", "--ttl", trialTTL.String(), lock, "--"}, beat(dir, "-next")...)...)
	require.Eventually(t, func() bool {
		line, err := x.s.Queue(t.Context(), lock)
		return err == nil && len(line) == 2 || !v.healthy()
	}, patience, 10*time.Millisecond, "two in line")
	// Renewals are made more often than that, so it comes at any time between two.
	driver.Sleep(t.Context(), clock, rand.N(trialTTL/2))
	if !v.healthy() {
		return nil
	}

	at := clock.Now()
	o.befall(v)

	next.code(t) // what it has found counts, and not what load makes of its own lock
	met := o.met(v)
	if o.heal != nil {
		o.heal(v)
	}
	if o.control {
		require.NoError(t, v.Process.Kill())
	}
	o.code = v.code(t)
	o.read(t, filepath.Join(dir, "signs"), at)
	if o.found == "" { // nobody looked, so nothing was found
		t.Logf("the next command did not begin: %s", &next.err)
		return nil
	}
	if o.told < 0 || o.next < 0 || o.dead == 0 && !o.killed { // it was lost at that moment
		return nil
	}
	assert.True(t, met, "the fault befell nobody")
	return v
}

// judge fails what must not be.
func (o *outcome) judge(t *testing.T, v *victim) {
	if o.control {
		assert.Less(t, o.next, o.dead, "the signs of life do not show it")
		assert.Equal(t, "beside", o.found, "the lock of the file does not show it")
		return
	}
	assert.Less(t, o.dead, o.next, "the command lived when the next one started")
	assert.NotEqual(t, "beside", o.found, "the command lived when the next one started, says the kernel: %s", o.saw)
	if !o.killed {
		assert.Equal(t, 79, o.code, v.err.String())
		assert.Contains(t, v.err.String(), "lost the lock while the command ran, and stopped it")
	}
}

// read takes the times from the signs of life.
func (o *outcome) read(t *testing.T, file string, at driver.Instant) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	o.told, o.dead, o.next, o.found = 0, 0, 0, ""
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
		if f[3] == "told" && (o.told == 0 || since < o.told) {
			o.told = since
		}
	}
}

// kind says who does not end when told to.
type kind struct{ deaf, deafChild bool }

// kinds are the commands that a fault is tried on, in turn.
func kinds(f harm) []kind {
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

// beat is a command that gives signs of life, or looks for such.
func beat(dir string, args ...string) []string {
	exe := filepath.Join(filepath.Dir(os.Getenv(binaryEnv)), "beat")
	return append([]string{exe, "-signs", filepath.Join(dir, "signs"), "-alone", filepath.Join(dir, "alone")}, args...)
}

package itest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/testnet"
)

// harm is what befalls a supervisor.
type harm struct {
	name   string
	befall func(v *victim)
	met    func(v *victim) bool // whether it befell anything; asked before it is healed
	heal   func(v *victim)      // nil leaves it as it is

	hears    bool     // the command is told to stop
	killed   bool     // the supervisor does not live to say how it ended
	deafOnly bool     // it is for commands that do not end when told to
	control  bool     // two are to run beside each other, or the trials are blind
	args     []string // of the supervisor
}

// held keeps back what goes in a direction. Connections stay, as in a partition,
// so nobody is told that they are broken.
func held(name string, dir fault.Direction) harm {
	return harm{
		name:   name,
		befall: func(v *victim) { v.each(func(p *testnet.Proxy) { p.Hold(dir) }) },
		met:    func(v *victim) bool { return v.waiting(dir) > 0 },
		hears:  true,
	}
}

func faults() []harm {
	both := held("cut", fault.Both)
	frozen := held("cut, then stopped", fault.Both)
	frozen.deafOnly = true
	frozen.befall = func(v *victim) {
		both.befall(v)
		v.err.WaitFor(v.t, "the command gets SIGTERM")
		v.signal(syscall.SIGSTOP)
	}
	frozen.met = func(v *victim) bool { return v.stopped() && both.met(v) }
	frozen.heal = func(v *victim) { v.signal(syscall.SIGCONT) }
	control := held("cut, --on-lost warn", fault.Both)
	control.control, control.args = true, []string{"--on-lost", "warn"}
	return []harm{
		both, held("requests cut", fault.Requests), held("replies cut", fault.Replies),
		{
			name: "refused",
			befall: func(v *victim) {
				v.each(func(p *testnet.Proxy) { p.Refuse(true) })
				v.each(func(p *testnet.Proxy) { p.Reset() })
			},
			met:   func(v *victim) bool { return v.refused() > 0 },
			hears: true,
		},
		{
			name:   "stopped",
			befall: func(v *victim) { v.signal(syscall.SIGSTOP) },
			met:    (*victim).stopped,
			heal:   func(v *victim) { v.signal(syscall.SIGCONT) },
		},
		frozen,
		{
			name:   "killed",
			befall: func(v *victim) { v.signal(syscall.SIGKILL) },
			met:    func(v *victim) bool { return v.code(v.t) == -1 },
			killed: true,
		},
		control,
	}
}

// victim is a supervisor with its own way to every server.
type victim struct {
	*running
	t       *testing.T
	proxies []*testnet.Proxy
}

// meet starts one, and returns when its command and the command's child live, or
// will not.
func meet(t *testing.T, x *servers, f harm, lock string, command []string) *victim {
	t.Helper()
	v := &victim{t: t}
	var hosts []string
	for _, h := range x.hosts {
		p, err := testnet.New(h, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		v.proxies, hosts = append(v.proxies, p), append(hosts, p.Addr())
	}
	args := append([]string{"run", "--ttl", trialTTL.String()}, f.args...)
	args = append(args, lock, "--")
	v.running = begin(t, x.url(hosts), append(args, command...)...)
	require.Eventually(t, func() bool { return v.out.String() == "ready\nready\n" || !v.healthy() }, longest, 10*time.Millisecond, "%s", &v.err)
	return v
}

func (v *victim) each(do func(*testnet.Proxy)) {
	for _, p := range v.proxies {
		do(p)
	}
}

// signal sends one. Whether it befell anybody is asked later.
func (v *victim) signal(s syscall.Signal) { _ = v.Process.Signal(s) }

// healthy says that nothing has happened yet. With --on-lost warn the loss is only told.
func (v *victim) healthy() bool {
	select {
	case <-v.done:
		return false
	default:
		said := v.err.String()
		return !strings.Contains(said, "the command gets SIGTERM") && !strings.Contains(said, "the lock is lost: ")
	}
}

// waiting is how many bytes do not go on in a direction.
func (v *victim) waiting(dir fault.Direction) (n int64) {
	v.each(func(p *testnet.Proxy) {
		s := p.Stats()
		if dir&fault.Requests != 0 {
			n += s.Requests.Waiting
		}
		if dir&fault.Replies != 0 {
			n += s.Replies.Waiting
		}
	})
	return n
}

// refused is how many connections were.
func (v *victim) refused() (n int64) {
	v.each(func(p *testnet.Proxy) { n += p.Stats().Refused })
	return n
}

// stopped says whether the supervisor stands still.
func (v *victim) stopped() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.Process.Pid))
	return err == nil && bytes.Contains(text, []byte(") T "))
}

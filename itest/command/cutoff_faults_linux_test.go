package command

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/testnet"
)

// faultCase is a fault that is injected into a supervisor.
type faultCase struct {
	name   string
	inject func(v *victim)
	met    func(v *victim) bool // reports whether the fault had an effect; called before heal
	heal   func(v *victim)      // nil if the fault needs no end

	stops    bool     // the command gets SIGTERM
	killed   bool     // the supervisor has no exit code of its own
	deafOnly bool     // only for commands that ignore SIGTERM
	control  bool     // two commands must overlap, or the trials would not notice an overlap
	args     []string // of the supervisor
}

// held holds back all bytes in a direction. Connections stay open, as in a partition, so
// no side learns that they are broken.
func held(name string, dir fault.Direction) faultCase {
	return faultCase{
		name:   name,
		inject: func(v *victim) { v.each(func(p *testnet.Proxy) { p.Hold(dir) }) },
		met:    func(v *victim) bool { return v.waiting(dir) > 0 },
		stops:  true,
	}
}

func faults() []faultCase {
	both := held("cut", fault.Both)
	frozen := held("cut, then stopped", fault.Both)
	frozen.deafOnly = true
	frozen.inject = func(v *victim) {
		both.inject(v)
		v.err.WaitFor(v.t, "the command is asked to stop|the lock is lost: ")
		v.signal(syscall.SIGSTOP)
		hang.Until(v.t, func() bool { return v.stopped() || v.ended() }, "the supervisor does not stop")
		v.late = v.ended()
	}
	frozen.met = func(v *victim) bool { return v.stopped() && both.met(v) }
	frozen.heal = func(v *victim) { v.signal(syscall.SIGCONT) }
	control := held("cut, --on-lost warn", fault.Both)
	control.control, control.args = true, []string{"--on-lost", "warn"}
	return []faultCase{
		both, held("requests cut", fault.Requests), held("replies cut", fault.Replies),
		{
			name: "refused",
			inject: func(v *victim) {
				v.each(func(p *testnet.Proxy) { p.Refuse(true) })
				v.each(func(p *testnet.Proxy) { p.Reset() })
			},
			met:   func(v *victim) bool { return v.refused() > 0 },
			stops: true,
		},
		{
			name:   "stopped",
			inject: func(v *victim) { v.signal(syscall.SIGSTOP) },
			met:    (*victim).stopped,
			heal:   func(v *victim) { v.signal(syscall.SIGCONT) },
		},
		frozen,
		{
			name:   "killed",
			inject: func(v *victim) { v.signal(syscall.SIGKILL) },
			met:    func(v *victim) bool { return v.code(v.t) == 137 },
			killed: true,
		},
		control,
	}
}

// victim is a supervisor with its own proxy to every server.
type victim struct {
	*running
	t       *testing.T
	proxies []*testnet.Proxy
	late    bool // the fault came when the supervisor had ended
}

// startVictim starts a supervisor. It returns when the command and its child run, or when
// the supervisor has failed.
func startVictim(t *testing.T, x *servers, f faultCase, lock string, command []string) *victim {
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
	hang.Until(t, func() bool { return v.out.String() == "ready\nready\n" || !v.healthy() }, "%s", &v.err)
	return v
}

func (v *victim) each(do func(*testnet.Proxy)) {
	for _, p := range v.proxies {
		do(p)
	}
}

// signal sends a signal. Its error is ignored: faultCase.met checks the effect.
func (v *victim) signal(s syscall.Signal) { _ = v.Process.Signal(s) }

// healthy reports whether the supervisor still holds. With --on-lost warn it only prints the loss.
func (v *victim) healthy() bool {
	if v.ended() {
		return false
	}
	text := v.err.String()
	return !strings.Contains(text, "the command is asked to stop") && !strings.Contains(text, "the lock is lost: ")
}

// ended reports whether the supervisor has ended.
func (v *victim) ended() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// waiting returns how many bytes are held back in a direction.
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

// refused returns how many connections were refused.
func (v *victim) refused() (n int64) {
	v.each(func(p *testnet.Proxy) { n += p.Stats().Refused })
	return n
}

// stopped reports whether the supervisor is stopped.
func (v *victim) stopped() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.Process.Pid))
	return err == nil && bytes.Contains(text, []byte(") T "))
}

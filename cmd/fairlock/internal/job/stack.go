package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session"
)

// The environment of a command that runs under a lock.
const (
	envName    = "FAIRLOCK_NAME"
	envToken   = "FAIRLOCK_TOKEN"
	envKind    = "FAIRLOCK_KIND"
	envSlot    = "FAIRLOCK_SLOT"
	envKey     = "FAIRLOCK_KEY"
	envID      = "FAIRLOCK_ID"
	envBackend = "FAIRLOCK_BACKEND"
	envTTL     = "FAIRLOCK_TTL_MS"
	envStack   = "FAIRLOCK_STACK"
)

// The tools whose variables a command can also get, so that scripts need no change.
const (
	CompatEtcd   = "etcd"   // as etcdctl lock sets them: the key, and the revision, which is the token
	CompatConsul = "consul" // as consul lock sets it
)

// stack are the locks that our parent processes hold, outermost first.
type stack []held

// held is a lock that a parent process holds.
type held struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	At   string `json:"at"`           // see serviceID
	NS   string `json:"ns,omitempty"` // in which PID is valid, see pidNamespace
}

// pidNamespace returns the name of the set of processes that this one sees; "" where there
// is only one.
func pidNamespace() string {
	ns, _ := os.Readlink("/proc/self/ns/pid") // Linux only
	return ns
}

// readStack reads the stack, without the locks of processes that do not wait for us: a
// daemon that a command has left has its variables, and outlives it.
func readStack(text string) (stack, error) {
	if text == "" {
		return nil, nil
	}
	var s stack
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, exit.Errorf(exit.Usage, "%s is not what fairlock sets: unset it, or leave it alone", envStack)
	}
	ns := pidNamespace()
	return slices.DeleteFunc(s, func(h held) bool { return h.NS == ns && !supervise.MayBeAbove(h.PID) }), nil
}

// check returns an error if a parent process holds the lock: to wait for it would be a
// deadlock.
func (s stack) check(name, at string) error {
	for _, h := range s {
		if h.Name == name && h.At == at {
			return exit.Errorf(exit.Usage, "deadlock: %q is already held by parent pid %d, which waits for us", name, h.PID)
		}
	}
	return nil
}

// names returns the locks that parent processes hold on the service.
func (s stack) names(at string) (names []string) {
	for _, h := range s {
		if h.At == at {
			names = append(names, h.Name)
		}
	}
	return names
}

// serviceID identifies a service, without user and password.
func serviceID(t *connect.Target) string {
	a := t.Address
	if a.Service == address.Memory {
		return a.Service
	}
	hosts := slices.Clone(a.Hosts)
	slices.Sort(hosts)
	where := a.Service + "://" + strings.Join(hosts, ",") + "/"
	if a.Service == address.Postgres {
		where += cmp.Or(a.Database, a.User) + "/" + cmp.Or(a.Schema, pgbackend.DefaultSchema) + "/"
	}
	if a.Service == address.Redis {
		return where + cmp.Or(a.Database, "0") + "/" + cmp.Or(a.Root, redisbackend.DefaultRoot)
	}
	return where + strings.TrimPrefix(a.Root, "/")
}

// environment returns the environment of the command. Our variables come last: a program
// that finds a variable twice uses the last, and a parent process may hold another lock.
func (j *job) environment(h *session.Hold) []string {
	outer := append(slices.Clone(j.stack), held{Name: j.Name, PID: os.Getpid(), At: serviceID(j.target), NS: pidNamespace()})
	text, err := json.Marshal(outer)
	if err != nil {
		panic(fmt.Sprintf("job: %v", err)) // cannot happen: strings and numbers only
	}
	inner := session.Engine(door.Key{}).Hold(h)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, envSlot+"=") })
	env = append(env,
		envName+"="+j.Name,
		envToken+"="+strconv.FormatInt(int64(h.Token()), 10),
		envKind+"="+j.kind(),
		envKey+"="+inner.Tie()[0].Key,
		envID+"="+j.ID,
		envBackend+"="+inner.Engine().Info().Service,
		envTTL+"="+strconv.FormatInt(j.s.Options().TTL.Milliseconds(), 10),
		envStack+"="+string(text))
	if h.Slot() >= 0 {
		env = append(env, envSlot+"="+strconv.Itoa(h.Slot()))
	}
	if slices.Contains(j.Compat, CompatEtcd) {
		env = append(env, "ETCD_LOCK_KEY="+inner.Tie()[0].Key, "ETCD_LOCK_REV="+strconv.FormatInt(int64(h.Token()), 10))
	}
	if slices.Contains(j.Compat, CompatConsul) {
		env = append(env, "CONSUL_LOCK_HELD=true")
	}
	return env
}

package drivertest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// planted is a fault in a sound backend. It must make the case fail that is meant for it.
type planted struct {
	name, finds string
	plant       func(b *faulty)
}

func all() []planted {
	return slices.Concat(faultyJoins, faultyReads, faultyWatches, faultySessions, faultyObserved, faultyLives)
}

const plantedVar = "FAIRLOCK_DRIVERTEST_PLANTED"

// TestWrapped runs the suite over the wrapper that faults are planted in. Without a fault
// it must pass. With one, the test below runs it.
func TestWrapped(t *testing.T) {
	plant := func(*faulty) {}
	if name := os.Getenv(plantedVar); name != "" {
		i := slices.IndexFunc(all(), func(d planted) bool { return d.name == name })
		require.GreaterOrEqual(t, i, 0, name)
		plant = all()[i].plant
	}
	o := memory.Options{First: true, Near: true, Observed: true, MaxTTL: longest}
	drivertest.Run(t, living(memtest.Harness(o, func(st *membackend.Store, c *membackend.Client) driver.Backend {
		b := newFaulty(st, c)
		plant(b)
		return b
	})))
}

func TestSuiteCatchesEveryPlantedFault(t *testing.T) {
	if os.Getenv(plantedVar) != "" {
		return // this process is one with a fault
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, d := range all() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			run := "^TestWrapped$/^" + strings.ReplaceAll(d.finds, "/", "$/^") + "$"
			cmd := exec.CommandContext(ctx, self, "-test.run", run, "-test.timeout", "50s")
			cmd.Env = append(os.Environ(), plantedVar+"="+d.name)
			out, err := cmd.CombinedOutput()

			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite passed:\n%s", out)
			assert.Contains(t, string(out), "--- FAIL: TestWrapped/"+d.finds, "another case failed")
			assert.NotContains(t, string(out), "test timed out", "a fault must end a case, not hang it")
		})
	}
}

// TestAnUnknownTopicFails: the cases of a topic that was renamed would not run any more.
func TestAnUnknownTopicFails(t *testing.T) {
	const unknown = "no such topic"
	if os.Getenv(plantedVar) == unknown {
		drivertest.Run(t, drivertest.Harness{Topics: []string{unknown}})
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), plantedVar+"="+unknown)

	out, err := cmd.CombinedOutput()

	require.Error(t, err, "the suite passed:\n%s", out)
	assert.Contains(t, string(out), `there is no topic "no such topic"`)
}

// call is a method of a session that takes one argument and has an answer.
type call[Q, A any] = func(s driver.Session, ctx context.Context, q Q) (A, error)

// faulty is a backend whose calls a planted fault replaces.
type faulty struct {
	driver.Backend
	st *membackend.Store
	c  *membackend.Client

	config  func(cfg *driver.Config)
	open    func(ctx context.Context, cfg driver.Config) (driver.Session, error)
	join    call[[]driver.JoinRequest, []driver.Joined]
	leave   call[[]driver.LeaveRequest, []driver.Left]
	read    call[driver.ReadRequest, driver.View]
	update  call[driver.UpdateRequest, []driver.Result]
	names   call[string, []string]
	watch   func(s driver.Session, t driver.Target, f func(driver.Event)) func()
	renew   func(s driver.Session)
	abandon func(s driver.Session)
	close   func(s driver.Session, ctx context.Context) error
	since   func(s driver.Session) int64
}

func newFaulty(st *membackend.Store, c *membackend.Client) *faulty {
	return &faulty{
		Backend: c.Backend(), st: st, c: c,
		config: func(*driver.Config) {},
		open:   c.Backend().Open,
		join: func(s driver.Session, ctx context.Context, q []driver.JoinRequest) ([]driver.Joined, error) {
			return s.Join(ctx, q...)
		},
		leave: func(s driver.Session, ctx context.Context, q []driver.LeaveRequest) ([]driver.Left, error) {
			return s.Leave(ctx, q...)
		},
		read: driver.Session.Read, update: driver.Session.Update, names: driver.Session.Names, watch: driver.Session.Watch,
		renew: driver.Session.Renew, abandon: driver.Session.Abandon, close: driver.Session.Close,
		since: driver.Session.Since,
	}
}

// before plants a fault into the argument of a call.
func before[Q, A any](of *call[Q, A], change func(q *Q)) {
	sound := *of
	*of = func(s driver.Session, ctx context.Context, q Q) (A, error) {
		change(&q)
		return sound(s, ctx, q)
	}
}

// after plants a fault into the answer of a call that has one.
func after[Q, A any](of *call[Q, A], change func(q Q, a *A)) {
	sound := *of
	*of = func(s driver.Session, ctx context.Context, q Q) (A, error) {
		a, err := sound(s, ctx, q)
		if err == nil {
			change(q, &a)
		}
		return a, err
	}
}

// failed plants a fault into the error of a call, which may be nil.
func failed[Q, A any](of *call[Q, A], change func(s driver.Session, q Q, err error) error) {
	sound := *of
	*of = func(s driver.Session, ctx context.Context, q Q) (A, error) {
		a, err := sound(s, ctx, q)
		return a, change(s, q, err)
	}
}

// joined plants a fault into each answer of a Join, entered into each request of one.
func (b *faulty) joined(change func(j *driver.Joined)) {
	after(&b.join, func(_ []driver.JoinRequest, js *[]driver.Joined) {
		for i := range *js {
			change(&(*js)[i])
		}
	})
}

// leaving plants a fault into each request of a Leave.
func (b *faulty) leaving(change func(req *driver.LeaveRequest)) {
	before(&b.leave, func(reqs *[]driver.LeaveRequest) {
		*reqs = slices.Clone(*reqs)
		for i := range *reqs {
			change(&(*reqs)[i])
		}
	})
}

// left plants a fault into each answer of a Leave.
func (b *faulty) left(change func(driver.Left) driver.Left) {
	after(&b.leave, func(_ []driver.LeaveRequest, all *[]driver.Left) {
		for i := range *all {
			(*all)[i] = change((*all)[i])
		}
	})
}

// ops plants a fault into the Ops of every request.
func (b *faulty) ops(change func(op *driver.Op)) {
	changed := func(ops []driver.Op) []driver.Op {
		ops = slices.Clone(ops)
		for i := range ops {
			change(&ops[i])
		}
		return ops
	}
	before(&b.join, func(reqs *[]driver.JoinRequest) {
		*reqs = slices.Clone(*reqs)
		for i := range *reqs {
			(*reqs)[i].Ops = changed((*reqs)[i].Ops)
		}
	})
	b.leaving(func(req *driver.LeaveRequest) { req.Ops = changed(req.Ops) })
	before(&b.update, func(req *driver.UpdateRequest) { req.Ops = changed(req.Ops) })
}

// shown plants a fault into each entry that a Read shows.
func (b *faulty) shown(change func(e *driver.Entry)) {
	after(&b.read, func(_ driver.ReadRequest, v *driver.View) {
		for i := range v.Entries {
			change(&v.Entries[i])
		}
	})
}

// reported plants a fault into the events of watches. Each watch gets a filter.
func (b *faulty) reported(filter func(t driver.Target) func(ev *driver.Event) bool) {
	sound := b.watch
	b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
		pass := filter(t)
		return sound(s, t, func(ev driver.Event) {
			if pass(&ev) {
				f(ev)
			}
		})
	}
}

// loses loses events of one kind.
func loses(kind driver.EventKind) func(b *faulty) {
	return func(b *faulty) {
		b.reported(func(driver.Target) func(*driver.Event) bool {
			return func(ev *driver.Event) bool { return ev.Kind != kind }
		})
	}
}

// there reports whether the service has an entry.
func (b *faulty) there(ref driver.Ref) bool {
	return slices.ContainsFunc(memtest.Entries(b.st, ref.Queue), func(e driver.Entry) bool { return e.Ref == ref })
}

func (b *faulty) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	b.config(&cfg)
	s, err := b.open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return faultySession{s, b}, nil
}

// pending returns the error of a Join whose outcome is unknown, or nil.
func pending(err error) (p *driver.PendingError) {
	errors.As(err, &p)
	return p
}

// faultySession is a session of a faulty backend.
type faultySession struct {
	driver.Session
	b *faulty
}

func (s faultySession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	return s.b.join(s.Session, ctx, reqs)
}

func (s faultySession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	return s.b.leave(s.Session, ctx, reqs)
}

func (s faultySession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	return s.b.read(s.Session, ctx, req)
}

func (s faultySession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	return s.b.update(s.Session, ctx, req)
}

func (s faultySession) Names(ctx context.Context, prefix string) ([]string, error) {
	return s.b.names(s.Session, ctx, prefix)
}

func (s faultySession) Watch(t driver.Target, f func(driver.Event)) func() {
	return s.b.watch(s.Session, t, f)
}

func (s faultySession) Renew()                          { s.b.renew(s.Session) }
func (s faultySession) Abandon()                        { s.b.abandon(s.Session) }
func (s faultySession) Close(ctx context.Context) error { return s.b.close(s.Session, ctx) }
func (s faultySession) Since() int64                    { return s.b.since(s.Session) }

// Package memory is the harness of membackend: it runs the suites in virtual
// time.
package memory

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/drivertest"
)

// Kind is a kind of service that membackend can be.
type Kind struct {
	Name    string
	Options membackend.Options
}

// Kinds are those that the suites are to be run on.
func Kinds() []Kind {
	return []Kind{
		{Name: "Plain", Options: membackend.Options{Ends: true}},
		{Name: "Tells", Options: membackend.Options{Tells: true, Ends: true}},
		{Name: "LikeZooKeeper", Options: membackend.Options{Tells: true, NoRevs: true, Near: true, Moves: true}},
	}
}

// Lagging is one more kind, for what lies above the driver: its looks are as old as
// they may be, and stories of the driver's contract would have to ask for newer
// ones at every step.
func Lagging() Kind {
	return Kind{Name: "Lagging", Options: membackend.Options{Ends: true, Stale: true}}
}

// Unarmed is one more kind, for what lies above the driver: watches on own entries
// are never armed there, so every grant after waiting needs a read.
func Unarmed() Kind {
	return Kind{Name: "Unarmed", Options: membackend.Options{Ends: true, OwnUnarmed: true}}
}

// Harness returns the harness of one kind, with each client's backend as seen
// through a wrapper; nil for none.
func Harness(o membackend.Options, wrap func(*membackend.Store, *membackend.Client) driver.Backend) drivertest.Harness {
	if wrap == nil {
		wrap = func(_ *membackend.Store, c *membackend.Client) driver.Backend { return c.Backend() }
	}
	return drivertest.Harness{
		TTL:     10 * time.Second,
		Virtual: true,
		Service: func(*testing.T) drivertest.Service {
			return service{st: membackend.NewWith(&o), wrap: wrap}
		},
	}
}

type service struct {
	st   *membackend.Store
	wrap func(*membackend.Store, *membackend.Client) driver.Backend
}

func (s service) Client(*testing.T) drivertest.Client {
	c := s.st.NewClient()
	return client{Client: c, backend: s.wrap(s.st, c)}
}

func (s service) Expire(t *testing.T, session string) {
	require.True(t, s.st.Expire(session), "session %s", session)
}

func (s service) Delete(t *testing.T, ref driver.Ref) {
	require.True(t, s.st.Delete(ref.Line, ref.Key), "entry %v", ref)
}

func (s service) PutForeign(t *testing.T, line string, leased bool) driver.Ref {
	ref, ok := s.st.PutForeign(line, fmt.Sprint("other/", len(s.st.Entries(line))), leased)
	require.True(t, ok)
	return ref
}

func (s service) Overwrite(t *testing.T, ref driver.Ref, value []byte) {
	if value == nil {
		require.True(t, s.st.Touch(ref.Line, ref.Key))
		return
	}
	require.True(t, s.st.Overwrite(ref.Line, ref.Key, value))
}

func (s service) Count(_ *testing.T, line string) int { return len(s.st.Entries(line)) }

// keptFor is how long a kept request travels.
const keptFor = 50 * time.Millisecond

type client struct {
	*membackend.Client
	backend driver.Backend
}

func (c client) Backend() driver.Backend { return c.backend }

func (c client) Cut(d drivertest.Direction) {
	c.Client.Cut(map[drivertest.Direction]membackend.Direction{
		drivertest.Both:     membackend.Both,
		drivertest.Requests: membackend.Requests,
		drivertest.Replies:  membackend.Replies,
	}[d])
}

func (c client) Heal() {
	c.Client.Heal()
	c.Client.Delay(0, 0)
}

func (c client) Strike(op drivertest.Op, f drivertest.Fault) {
	kind := map[drivertest.Op]membackend.Op{
		drivertest.Open:   membackend.OpOpen,
		drivertest.Join:   membackend.OpJoin,
		drivertest.Leave:  membackend.OpLeave,
		drivertest.Look:   membackend.OpLook,
		drivertest.List:   membackend.OpList,
		drivertest.Close:  membackend.OpClose,
		drivertest.Change: membackend.OpChange,
	}[op]
	switch f {
	case drivertest.LostRequest:
		c.LoseRequest(kind)
	case drivertest.BrokenRequest:
		c.BreakRequest(kind)
	case drivertest.LostReply:
		c.LoseReply(kind)
	case drivertest.BrokenReply:
		c.BreakReply(kind)
	case drivertest.Kept:
		c.LateRequest(kind, keptFor)
	}
}

// Deliver lets virtual time pass until the request has arrived.
func (c client) Deliver() {
	time.Sleep(keptFor)
	synctest.Wait()
}

func (c client) Delay(d time.Duration) { c.Client.Delay(0, d) }

func (c client) OnRequest(f func()) {
	if f == nil {
		c.Client.OnRequest(nil)
		return
	}
	c.Client.OnRequest(func(op membackend.Op) {
		if op != membackend.OpRenew && op != membackend.OpWatch {
			f()
		}
	})
}

func (c client) Requests() int {
	n := 0
	for _, op := range []membackend.Op{
		membackend.OpOpen, membackend.OpJoin, membackend.OpLeave, membackend.OpLook,
		membackend.OpSettle, membackend.OpList, membackend.OpClose, membackend.OpChange,
	} {
		n += c.Client.Requests(op)
	}
	return n
}

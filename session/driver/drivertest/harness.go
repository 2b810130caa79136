package drivertest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session/driver"
)

// Harness is what a backend's test supplies.
type Harness struct {
	// Service returns an empty service for one case, and frees it by t.Cleanup. It may
	// be a part of a shared server that no other case can see: a root of its own. It may
	// wait until other cases have ended, where the clients of as many as go test runs at
	// the same time are too many for one server.
	Service func(t *testing.T) Service

	// TTL is the TTL of sessions that end in the case. Cases about expiry take two to
	// three of them. The service must give exactly this one.
	TTL time.Duration

	// Calm is the TTL of sessions that must not expire. A machine may stand still, and a
	// service may not answer, for many seconds, so in real time it should be minutes. 0
	// means TTL.
	Calm time.Duration

	// Virtual reports whether the service lives in virtual time. Each case runs in
	// synctest.Test then, and takes the same requests every time.
	Virtual bool

	// Parallel lets cases run at the same time, except those about leaks. It is for real
	// servers, where much of the time is waiting.
	Parallel bool

	// Prompt is how soon a call must return after its context ended; 0 means 100 ms.
	Prompt time.Duration

	// Leaks are more goroutines that are not the backend's: those of a server in the
	// same process.
	Leaks []goleak.Option

	// First reports whether the service passes LeaveRequest.First on to the watches of the
	// entry. A backend that does so with some options only has another harness without.
	First bool

	// NoOptional reports whether the service refuses every optional Op, and every Detail
	// of an Update. A service in memory can do so for tests.
	NoOptional bool

	// Observed reports whether the service does not end sessions by itself: clients that
	// have a watch on a queue end those of its sessions that they see expire. In cases
	// about expiry, the suite keeps an observer open then that watches the queue, and the
	// topic observed has the cases of such a service.
	Observed bool

	// NoForeign reports whether no program but this library can make entries. There is no
	// topic foreign then, and in other cases an entry of another client takes the place of
	// that of another program. PutForeign is never called.
	NoForeign bool

	// Lives are the ways in which the service can begin a new life, as Lives.NewLife takes
	// them: "Promotion", for example. Without any there is no topic life. Its cases, and those
	// in recipes/recipetest, open sessions with Info.MaxTTL, and wait for that long several
	// times. The other cases need one of at least Calm and twice TTL. So in real time they have
	// a harness of their own.
	Lives []string

	// Keeps is what Info must declare for this service.
	Keeps driver.Keeps

	// Spurious reports whether watches of anything but an entry may report changes that
	// are none.
	Spurious bool

	// Try is how many round trips a Join with IfEmpty takes to find out that the queue
	// is not empty, and its first entry; 0 means 1.
	Try int

	// Topics are the groups of cases to run; nil means all. Run fails for a name that no
	// topic has.
	Topics []string

	// Replicated runs only the cases that can fail because several servers answer:
	// order, reads, watches, expiry, lost and late requests. The others belong on one
	// server. The same holds in recipes/recipetest.
	Replicated bool

	// Turn lets several services share cases of recipes/recipetest. It reports whether it is
	// the turn of this one, by the name of the case. Each case of Replicated runs on one
	// server of each service, so they share it only with Replicated, and all other cases only
	// without. nil means that nothing is shared.
	Turn func(name string) bool

	// Sparse makes the cases of Ops whose request is lost run every fourth row of their
	// table, each case other rows, and ends calls whose request is lost at their first 8
	// requests instead of 20. In real time each row and each repeated request costs a
	// second or more.
	Sparse bool

	// Undone reports whether a join that arrives late may make its entry: the service
	// has no condition that refuses it. The backend must delete that entry by itself,
	// soon.
	Undone bool
}

// RunCase runs one case, in virtual time if the service lives there, with the defaults
// of the harness filled in.
func (h Harness) RunCase(t *testing.T, run func(t *testing.T, h Harness)) {
	t.Helper()
	if h.Prompt == 0 {
		h.Prompt = 100 * time.Millisecond
	}
	c := func(t *testing.T) { run(t, h) } //nolint:thelper // a case
	if h.Virtual {
		synctest.Test(t, c)
		return
	}
	c(t)
}

// Service is the service of one case, with what other clients can do there. Its methods
// act at once, unaffected by any fault of a client's network, and have taken effect when
// they return. They fail t if they cannot. What they do is reported to watches: where the
// service itself does not report what a program by hand does, they act as the tools of
// this library for operators do.
type Service interface {
	// Client returns a new client with a network of its own, healthy at first.
	Client(t *testing.T) Client

	// Expire ends a session from outside, by its driver.Session's ID, as an operator
	// would: etcd's lease revoke.
	Expire(t *testing.T, session string)

	// Delete removes an entry by hand.
	Delete(t *testing.T, ref driver.Ref)

	// PutForeign puts an entry that this library did not make at the end of a queue;
	// with a session of its own that outlives the case, or without one. Its data is not
	// ours either.
	PutForeign(t *testing.T, queue string, leased bool) driver.Ref

	// Overwrite replaces the data of an entry, and keeps its session: it is still the
	// same entry. A nil value writes the present one again.
	Overwrite(t *testing.T, ref driver.Ref, value []byte)

	// Count returns how many entries the queue has, by a fresh read of the service.
	Count(t *testing.T, queue string) int
}

// Lives is a Service that can begin a new life, see the section on lives of package driver.
type Lives interface {
	Service

	// NewLife begins a new life in one of the ways of Harness.Lives. What is left of the data
	// depends on the way. When it returns, clients reach the service in its new life only.
	NewLife(t *testing.T, way string)
}

// Client is one client of the service. All methods may be called while requests are
// under way. A client library that lets nothing come between it and its connection takes a
// backend with a seam for tests.
type Client interface {
	// Backend returns the backend under test on this client's network; the same at every
	// call. The suite closes it.
	Backend() driver.Backend

	// Cut makes the network drop what is sent in a direction, without an error to either
	// side, until Heal. Connections that are made again during the cut are affected too.
	// What is dropped may be lost or may come after Heal, as with TCP.
	Cut(d fault.Direction)

	// CutRepliesTo cuts the replies from the next request of a kind on, until Heal. The
	// service gets that request. After Cut a client that has to connect first could not
	// send it.
	CutRepliesTo(op fault.Op)

	// Heal ends all cuts and delays.
	Heal()

	// Inject makes a fault hit the next request of a kind, once.
	Inject(op fault.Op, k fault.Kind)

	// Deliver lets the requests that fault.LateRequest has held back arrive at the
	// service, and returns when the service has answered them.
	Deliver()

	// Delay delays every answer by d, from requests to renewals, until Heal.
	Delay(d time.Duration)

	// OnRequest calls f at the start of each request other than renewals and watches,
	// before it is sent, in the goroutine that sends it; nil ends it.
	OnRequest(f func())

	// Requests returns how many requests have been sent so far. Each repetition counts;
	// renewals and watches do not.
	Requests() int

	// Late returns a number that rises when a request is not answered in time: the client
	// gave an attempt up, or its connection broke. It sends more requests then.
	Late() int
}

// Costs runs acts one after the other, several times, and returns how many requests each
// of them takes: the maximum, or in real time the median, because a backend may send some by
// itself. In real time a round in which an answer was late does not count.
func (h Harness) Costs(c Client, acts ...func()) []int {
	const rounds = 5
	took := make([][]int, len(acts))
	for end := time.Now().Add(hang.Guard); len(took[0]) < rounds; {
		late := c.Late()
		var round []int
		for _, act := range acts {
			before := c.Requests()
			act()
			round = append(round, c.Requests()-before)
		}
		if c.Late() != late && time.Now().Before(end) {
			continue
		}
		for i, n := range round {
			took[i] = append(took[i], n)
		}
	}
	costs := make([]int, len(acts))
	for i := range took {
		slices.Sort(took[i])
		costs[i] = took[i][rounds/2]
		if h.Virtual {
			costs[i] = took[i][rounds-1]
		}
	}
	return costs
}

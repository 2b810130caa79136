// Package fault names what can go wrong between a client and its service. The backend
// in memory, the proxies of real servers, the conformance suites and the simulation all
// use these names.
package fault

import (
	"slices"
	"sync"
)

// Direction is the direction in which a network is cut.
type Direction uint8

// The directions of a network. Events travel with the replies.
const (
	Requests Direction = 1 << iota // from the client to the service
	Replies                        // from the service to the client
	Both     = Requests | Replies
)

// Directions returns all of them.
func Directions() []Direction { return []Direction{Both, Requests, Replies} }

// String returns the direction as it is in the names of cases.
func (d Direction) String() string { return [...]string{"", "Requests", "Replies", "Both"}[d&Both] }

// Op is a kind of request. Two kinds may be the same to a service: a fault of one may hit
// the other then.
type Op string

// The kinds of requests.
const (
	Open   Op = "open"   // makes a session
	Join   Op = "join"   // makes entries
	Leave  Op = "leave"  // deletes them
	Update Op = "update" // changes an entry, or records of its queue
	Read   Op = "read"   // reads a queue, and its records
	Names  Op = "names"  // reads the names of queues
	Close  Op = "close"  // ends a session
	Settle Op = "settle" // finds out what became of a Join that was not answered
	Watch  Op = "watch"  // arms a watch
	Renew  Op = "renew"  // keeps a session alive
)

// Kind is a fault of one request.
type Kind string

// The faults of single requests.
const (
	// LostRequest: the service never gets it, and the client gets no answer. The
	// request hangs until its own context ends, or until it is sent again.
	LostRequest Kind = "LostRequest"
	// BrokenRequest: the service never gets it, and the client gets an error at once:
	// the connection broke. It cannot distinguish this from BrokenReply.
	BrokenRequest Kind = "BrokenRequest"
	// LostReply: the service does it, and the client gets no answer.
	LostReply Kind = "LostReply"
	// BrokenReply: the service does it, and the client gets an error instead of the
	// reply: the connection broke.
	BrokenReply Kind = "BrokenReply"
	// LateRequest: the client gets an error at once, that the connection broke, and the
	// service gets the request later.
	LateRequest Kind = "LateRequest"
)

// Kinds returns all of them, LateRequest last.
func Kinds() []Kind { return append(Retryable(), LateRequest) }

// Retryable returns those after which the same request can be sent again and
// succeed.
func Retryable() []Kind { return []Kind{LostRequest, BrokenRequest, LostReply, BrokenReply} }

// Plan keeps the faults that wait for requests. Its zero value is an empty plan.
// It is safe for concurrent use.
type Plan struct {
	mu      sync.Mutex
	waiting map[Op][]Kind
}

// Inject lets a fault hit the next request of a kind, once. Called several times
// it is for one request more each time, in the order of the calls.
func (p *Plan) Inject(op Op, k Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = make(map[Op][]Kind)
	}
	p.waiting[op] = append(p.waiting[op], k)
}

// Waits reports whether a fault waits for a request of this kind.
func (p *Plan) Waits(op Op) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting[op]) > 0
}

// Take returns the oldest fault that waits for a request of one of these kinds, and
// removes it from the plan; "" if there is none.
func (p *Plan) Take(ops ...Op) Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(ops, func(op Op) bool { return len(p.waiting[op]) > 0 })
	if i < 0 {
		return ""
	}
	ks := p.waiting[ops[i]]
	p.waiting[ops[i]] = ks[1:]
	return ks[0]
}

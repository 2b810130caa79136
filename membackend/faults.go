package membackend

import "time"

// Op is a kind of request.
type Op string

// The kinds of requests. OpJoin is JoinAll too, and OpLeave LeaveAll and Evict; OpChange is
// Share, Admit, Claim, Write, Enter and SetLimit; OpList is List, Names and Limit;
// OpSettle is what [driver.PendingError] sends, and OpTell what a watch with
// [driver.WatchRequest.Tell] sends at its end, if [Options.Tells].
const (
	OpOpen   Op = "open"
	OpJoin   Op = "join"
	OpLeave  Op = "leave"
	OpChange Op = "change"
	OpLook   Op = "look"
	OpWatch  Op = "watch"
	OpTell   Op = "tell"
	OpRenew  Op = "renew"
	OpSettle Op = "settle"
	OpList   Op = "list"
	OpClose  Op = "close"
)

// Direction says which way a network is cut.
type Direction uint8

// The ways of a network. Events travel with the replies.
const (
	Requests Direction = 1 << iota
	Replies
	Both = Requests | Replies
)

// fault is what happens to one request.
type fault struct {
	kind  faultKind
	delay time.Duration
}

type faultKind uint8

const (
	healthy faultKind = iota
	requestLost
	requestBroken
	requestLate
	replyLost
	replyBroken
)

// Cut makes the network swallow everything that is sent in a direction, as a
// partition does: nobody is told, and what is swallowed stays lost after Heal.
// Calls go on sending until their context ends. With the replies cut, events
// are lost too, and watches say so after Heal. Cuts add up.
func (c *Client) Cut(d Direction) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.cut |= d
	if d&Replies != 0 {
		for _, s := range c.sessions {
			s.disconnect()
		}
	}
}

// Heal ends a cut. Watches whose events may have been lost tell Broken, and
// are made anew.
func (c *Client) Heal() {
	c.st.mu.Lock()
	was := c.cut
	c.cut = 0
	var lost []*watch
	if was&Replies != 0 {
		for _, s := range c.sessions {
			lost = append(lost, s.reconnect()...)
		}
	}
	c.st.mu.Unlock()
	for _, w := range lost {
		w.request()
	}
}

// Stall stops the process, as SIGSTOP or a long garbage collection would: it
// sends nothing, gets nothing, and its timers do nothing. The service's clock
// goes on. Calls still return when their context ends.
func (c *Client) Stall() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.stalled = true
}

// Resume lets a stalled process go on. What was kept from it happens now, in
// no promised order, except that events keep theirs.
func (c *Client) Resume() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.stalled = false
	held := c.held
	c.held = nil
	for _, f := range held {
		f()
	}
	for _, s := range c.sessions {
		s.rouse()
	}
}

// Delay sets how long requests travel to the service, and replies and events
// back, from now on. Zero is no time at all.
func (c *Client) Delay(requests, replies time.Duration) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.toService, c.fromThere = requests, replies
}

// LoseRequest loses the next request of a kind without a word. Like the other
// faults of single requests it can be called several times, each for one
// request more.
func (c *Client) LoseRequest(op Op) { c.addFault(op, fault{kind: requestLost}) }

// BreakRequest loses the next request of a kind, and the client is told at once
// that its connection broke. It cannot tell this from BreakReply.
func (c *Client) BreakRequest(op Op) { c.addFault(op, fault{kind: requestBroken}) }

// LoseReply lets the service do the next request of a kind, and loses the reply
// without a word.
func (c *Client) LoseReply(op Op) { c.addFault(op, fault{kind: replyLost}) }

// BreakReply lets the service do the next request of a kind, and the client is
// told that its connection broke, instead of the reply.
func (c *Client) BreakReply(op Op) { c.addFault(op, fault{kind: replyBroken}) }

// LateRequest makes the next request of a kind arrive at the service after d,
// while the client is told at once that its connection broke. Neither Heal nor
// a closed session calls it back.
func (c *Client) LateRequest(op Op, d time.Duration) {
	c.addFault(op, fault{kind: requestLate, delay: d})
}

// OnRequest calls f before each request is sent, in the goroutine that sends
// it, until OnRequest is called again; nil calls nobody. f may set faults,
// which strike this very request, and act on the Store. It must not block.
func (c *Client) OnRequest(f func(op Op)) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.onRequest = f
}

// Requests is how many requests of a kind the client has sent, repeated ones
// and lost ones included.
func (c *Client) Requests(op Op) int {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	return c.requests[op]
}

func (c *Client) addFault(op Op, f fault) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.faults[op] = append(c.faults[op], f)
}

// takeFault takes the oldest fault that waits for a request of this kind.
func (c *Client) takeFault(op Op) fault {
	waiting := c.faults[op]
	if len(waiting) == 0 {
		return fault{}
	}
	c.faults[op] = waiting[1:]
	return waiting[0]
}

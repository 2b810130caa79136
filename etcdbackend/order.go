package etcdbackend

// order knows whether the events of a watch stream still come in the order of
// the store.
//
// The server puts the events of all watches of a stream into one channel, in
// order, and sends them from there. But the channel has 128 places, and an
// event that finds it full is set aside and told later, behind newer events of
// other watches. Nothing in the stream shows that. What shows the contrary is
// the answer to a progress request: it is given only while every watch of the
// stream has been told everything, and it goes through the same channel. The
// messages that came between request and answer bound how full the channel was
// then, and those that have come since bound how full it can have become. While
// both together are less than the channel holds, nothing was set aside.
//
// The server drops a progress request that it cannot answer, and says nothing. An
// answer does not name its request, so it counts as the answer to the first that is
// open, and every drop would make the bound worse for the rest of the stream. What
// ends that is the creation of a watch, which is always answered. The server handles
// the requests of a stream one after the other, so what was asked before the creation
// was handled at the revision of the created notice at the latest. An answer of a newer
// revision is to a later request, and those before have been answered or dropped.
//
// So a progress request is sent every few messages, and the own watches are
// armed only while the last answer is recent enough. A burst disarms them for a
// round trip, and then own entries are read before a grant. Where more messages
// come in each round trip than the bounds allow, the own watches stay disarmed, and
// nothing else is wrong with the stream.
//
// One case escapes: a member so far behind that it gets a snapshot from the
// leader, without having lost it, tells everybody's missed events watch by
// watch. Only the order is lost then, and only that one time.
type order struct {
	seen  int      // messages that came through the channel
	at    int      // seen, when the last answer came
	asked []int    // seen, when each unanswered request was sent
	sent  int      // how many requests were sent
	mark  creation // the first created notice that has not closed any requests yet
	ok    bool
	never bool // answers prove nothing: the server may be too old
}

// creation is a created notice: its revision, and how many progress requests were
// sent before its watch was asked for.
type creation struct {
	rev  int64
	sent int
}

// The bounds of order: their sum stays below the channel's 128.
const (
	orderAsk   = 24 // messages after an answer until it is asked again
	orderSlack = 32 // messages between a request and its answer
	orderStale = 72 // messages for which an answer is good
	maxAsked   = 4  // unanswered requests; the server drops some when it is busy
)

// message counts one message. It says that order was lost just now.
func (o *order) message() (lost bool) {
	o.seen++
	lost = o.ok && o.seen-o.at >= orderStale
	if lost {
		o.ok = false
	}
	return lost
}

// wantsAnswer says that a progress request is due.
func (o *order) wantsAnswer() bool {
	if o.never {
		return false
	}
	if len(o.asked) == 0 {
		return !o.ok || o.seen-o.at >= orderAsk
	}
	// Perhaps the last one was dropped.
	return len(o.asked) < maxAsked && o.seen-o.asked[len(o.asked)-1] >= orderAsk
}

// wantsTick reports whether a progress request is due though no message came. Few
// may be under way: a request at every tick would add up where the order stays
// unsure.
func (o *order) wantsTick() bool { return !o.ok && !o.never && len(o.asked) < orderSlack/2 }

// ask notes that a progress request is being sent.
func (o *order) ask() {
	o.asked = append(o.asked, o.seen)
	o.sent++
}

// created takes in a created notice. The first that has closed nothing yet is kept:
// the newest could always be newer than the next answer.
func (o *order) created(c creation) {
	if o.mark.rev == 0 {
		o.mark = c
	}
}

// wantsCreation reports whether requests are likely to have been dropped, and no
// created notice is there to close them. On a stream with few messages they do no harm.
func (o *order) wantsCreation() bool {
	return !o.ok && !o.never && len(o.asked) >= maxAsked && o.mark.rev == 0
}

// close forgets the requests that an answer of a revision shows to be closed.
func (o *order) close(rev int64) {
	if o.mark.rev == 0 || rev <= o.mark.rev {
		return
	}
	first := o.sent - len(o.asked)
	o.asked = o.asked[max(o.mark.sent-first, 0):]
	o.mark = creation{}
}

// answer takes in the answer to a progress request. Since the server drops
// some, it may be to a later request than to the first open one; taking it for the
// answer to the first errs on the safe side. buffered is how many watches are not announced yet:
// the server holds their events back beside the channel. rev is the answer's.
func (o *order) answer(buffered int, rev int64) {
	o.close(rev)
	if len(o.asked) == 0 {
		return
	}
	between := o.seen - o.asked[0] + buffered
	o.asked = o.asked[1:]
	o.seen++
	if between <= orderSlack && !o.never {
		o.ok, o.at = true, o.seen
	}
}

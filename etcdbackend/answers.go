package etcdbackend

import "time"

// answerTimes estimates how long the answer to a request may take, as TCP does
// for the time after which it sends again (RFC 6298): a mean of what answers
// took and four times their mean deviation. The zero value knows nothing.
//
// Two things differ from TCP.
//
// Karn's rule, to learn nothing from what was sent twice, is not needed: an
// answer here belongs to one attempt and is timed from that. And it would do
// harm: with two endpoints of which one is dead, first attempts would go to that
// one and only second ones be answered, so that nothing would ever be learned,
// and the time that a dead endpoint costs would double with every request.
//
// TCP times one segment in a round trip; here hundreds of answers come in one,
// and the gains, made for one, would let a few quick reads wipe out what a slow
// write has shown. So the limit rises with every answer and falls at most once in
// a round trip; and an answer that is quicker than was thought never makes it
// longer, however far off it is. Linux's TCP has both.
//
// Moments are those of Go's clock and not of leases: nothing is believed for them,
// and to ask the kernel for the other clock costs some microseconds a request.
type answerTimes struct {
	mean, deviation time.Duration // RFC 6298's SRTT and RTTVAR
	fell            time.Time     // when the limit last did
	heard           time.Time     // when the newest answer came
	doubled         int           // how often the time was, without an answer since
}

// maxDoubled bounds the doubling, far from an overflow.
const maxDoubled = 16

// limit is how long an answer may take by what is known.
func (a answerTimes) limit() time.Duration { return a.mean + 4*a.deviation }

// answered takes in an answer that came now.
func (a *answerTimes) answered(now time.Time, took time.Duration) {
	a.doubled, a.heard = 0, now
	if a.mean == 0 {
		a.mean, a.deviation, a.fell = max(took, 1), took/2, now
		return
	}
	next := *a
	off := took - a.mean
	next.mean += off / 8
	switch wider := max(off, -off) - a.deviation; {
	case off < 0 && wider > 0:
		next.deviation += wider / 32 // what this adds to the limit is less than the mean takes off
	default:
		next.deviation += wider / 4
	}
	if next.limit() < a.limit() {
		if now.Sub(a.fell) < a.mean {
			return
		}
		next.fell = now
	}
	*a = next
}

// unanswered takes in that a request which was sent then had no answer in a time
// that was doubled so often. While others are answered that says nothing. Many
// that were sent together and are given up together count once.
func (a *answerTimes) unanswered(sent time.Time, doubled int) {
	if a.heard.Before(sent) {
		a.doubled = max(a.doubled, min(doubled+1, maxDoubled))
	}
}

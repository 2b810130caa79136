package rule

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/fairlock/fairlock/session/driver"
)

// Semaphore is the rule of permits: an entry holds when its weight and the weights of
// all entries ahead are not more than the limit. No entry overtakes, however little it
// asks for.
//
// The front waiter, whose predecessor holds, can be let in by the end of any holder. All
// others are let in only after the one before them, and since that one marks itself as
// Admitted, they wait for its mark or its end. So a release wakes one waiter, and the
// grant of that one wakes one more, whatever the limit is and however many wait. To wait
// only for the end of the one before would miss most wake-ups.
func Semaphore() Rule { return Rule{Decide: semaphore, Limited: true} }

func semaphore(a Ahead, mine *driver.Entry) Verdict {
	n, want := len(a.Entries), max(mine.Weight, 1)
	switch {
	case a.Limit > 0 && want > a.Limit:
		return Verdict{Never: true}
	case a.Limit <= 0, n == 0 && !a.Complete:
		return a.more() // a read shows the limit too
	}
	// As long as those from here on live, there are too few permits, whatever became of the
	// others.
	from, taken := n, int64(0)
	for from > 0 && want <= a.Limit-taken {
		from--
		taken = add(taken, weight(a.Entries[from], a.Limit))
	}
	fits := want <= a.Limit-taken
	switch {
	case fits && a.Complete:
		return Verdict{Hold: true}
	case admitted(a.Entries[n-1]):
		if fits {
			return a.more()
		}
	case a.Complete && total(a.Entries, a.Limit) > a.Limit, !a.Complete && int64(a.Count) > a.Limit:
		return Verdict{Wait: a.Entries[n-1:]} // the one before waits itself
	case !a.Complete:
		return a.more() // the one before may have been let in a moment ago
	}
	return Verdict{Front: true, Wait: a.Entries[from:]}
}

// total is how many permits entries stand for.
func total(es []*driver.Entry, limit int64) (sum int64) {
	for _, e := range es {
		sum = add(sum, weight(e, limit))
	}
	return sum
}

func admitted(e *driver.Entry) bool { return e.Marks.Has(driver.MarkAdmitted) }

// weight is how many permits an entry stands for. One that is not a semaphore's stands
// for all of them.
func weight(e *driver.Entry, limit int64) int64 {
	if e.Mode != driver.Weighted || e.Foreign {
		return limit
	}
	return max(e.Weight, 1)
}

// add returns a sum of permits, math.MaxInt64 if it is more than that.
func add(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// ErrLimitMismatch reports that the queue has a different limit.
var ErrLimitMismatch = errors.New("limit mismatch")

// LimitError is the error of a request with a different limit than the queue has.
type LimitError struct {
	Limit int64 // the queue's
	Asked int64 // the caller's
}

// Error names both.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit mismatch: the service has %d, the caller gave %d", e.Limit, e.Asked)
}

// Is makes errors.Is(err, ErrLimitMismatch) true.
func (e *LimitError) Is(target error) bool { return target == ErrLimitMismatch }

// RecordLimit is the name of the record that has the limit of a semaphore.
const RecordLimit = "limit"

// LimitOf returns the limit that the record of a queue has, 0 if there is no record: a
// number above 0 in decimal digits, without sign or leading zero. The error for any other
// value wraps driver.ErrRefused, because an operator must mend the record.
func LimitOf(queue string, r driver.Record) (int64, error) {
	if r.Version == 0 {
		return 0, nil
	}
	limit, err := strconv.ParseInt(string(r.Value), 10, 64)
	if err != nil || limit <= 0 || string(r.Value) != strconv.FormatInt(limit, 10) {
		return 0, fmt.Errorf("%w: the record \"limit\" of queue %q is %.40q, which is no limit of a semaphore", driver.ErrRefused, queue, r.Value)
	}
	return limit, nil
}

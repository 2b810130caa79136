package observed

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// sights reads a list such as "a1 b2": session a at version 1, session b at version 2, with a TTL of
// ten seconds. "a1/5" has a TTL of five.
func sights(list string) []Sight {
	var all []Sight
	for field := range strings.FieldsSeq(list) {
		text, seconds, other := strings.Cut(field, "/")
		s := Sight{ID: text[:1], TTL: ttl}
		s.Version, _ = strconv.ParseInt(text[1:], 10, 64)
		if other {
			n, _ := strconv.Atoi(seconds)
			s.TTL = time.Duration(n) * time.Second
		}
		all = append(all, s)
	}
	return all
}

// listed is the inverse of sights, without the TTLs.
func listed(all []Sight) string {
	var fields []string
	for _, s := range all {
		fields = append(fields, fmt.Sprint(s.ID, s.Version))
	}
	return strings.Join(fields, " ")
}

// at is a moment on a clock that does not begin at 0.
func at(seconds int) driver.Instant {
	return driver.Instant(1e15).Add(time.Duration(seconds) * time.Second)
}

func TestLeasesCountEachVersionFromItsFirstReceipt(t *testing.T) {
	type step struct {
		at   int    // the second at which an answer is received; Due and Next follow at once
		saw  string // the answer; "-" if there is none
		due  string
		next int // seconds; -1: nothing is observed
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"one version", []step{{0, "a1", "", 10}, {4, "a1", "", 6}, {9, "a1", "", 1}, {10, "-", "a1", 0}, {15, "a1", "a1", 0}}},
		{"a renewed session begins again", []step{{0, "a1", "", 10}, {9, "a2", "", 10}, {18, "a2", "", 1}, {19, "-", "a2", 0}}},
		{"due, and then renewed", []step{{0, "a1", "", 10}, {10, "-", "a1", 0}, {11, "a2", "", 10}}},
		{"ended", []step{{0, "a1 b1", "", 10}, {10, "-", "a1 b1", 0}, {11, "b1", "b1", 0}, {12, "", "", -1}}},
		{"all at once, in the order of their IDs", []step{{0, "c1 a1 b1", "", 10}, {10, "b1 c1 a1", "a1 b1 c1", 0}}},
		{"the next is the one that was seen first", []step{{0, "b1", "", 10}, {3, "a1 b1", "", 7}, {12, "-", "b1", 0}, {13, "a1", "a1", 0}}},
		{"each with its own TTL", []step{{0, "a1/20 b1/5", "", 5}, {5, "-", "b1", 0}, {20, "-", "a1 b1", 0}}},
		{"another TTL is another sight", []step{{0, "a1/5", "", 5}, {4, "a1", "", 10}, {13, "-", "", 1}, {14, "-", "a1", 0}}},
		{"out of the scope, and back in it", []step{{0, "a1", "", 10}, {5, "", "", -1}, {6, "a1", "", 10}, {16, "-", "a1", 0}}},
		{"a smaller version, of restored data", []step{{0, "a5", "", 10}, {5, "a3", "", 10}, {14, "a3", "", 1}, {15, "-", "a3", 0}}},
		{"an answer that is older than the one before", []step{{0, "a1", "", 10}, {3, "a2", "", 10}, {4, "a1", "", 10}, {5, "a2", "", 10}}},
		{"nothing", []step{{0, "-", "", -1}, {1, "", "", -1}}},
	} {
		var l Leases
		for _, s := range c.steps {
			if s.saw != "-" {
				l.Saw(at(s.at), sights(s.saw))
			}

			next, observes := l.Next(at(s.at))

			assert.Equal(t, s.due, listed(l.Due(at(s.at))), "%s, second %d", c.name, s.at)
			assert.Equal(t, s.next >= 0, observes, "%s, second %d", c.name, s.at)
			assert.Equal(t, time.Duration(max(s.next, 0))*time.Second, next, "%s, second %d", c.name, s.at)
		}
	}
}

func TestOwnSessionsAreNeverDue(t *testing.T) {
	var l Leases
	l.Own("a")
	l.Own("c")
	l.Disown("never owned")

	l.Saw(at(0), sights("a1 c1"))

	_, observes := l.Next(at(0))
	assert.False(t, observes, "no session of another process is observed")
	assert.Empty(t, l.Due(at(100)))

	l.Saw(at(5), sights("a1 b1 c1"))
	next, _ := l.Next(at(100))
	assert.Zero(t, next)
	assert.Equal(t, "b1", listed(l.Due(at(100))))

	l.Disown("a")
	assert.Equal(t, "a1", listed(l.Due(at(10))), "it has been counted all the time")
	assert.Equal(t, "a1 b1", listed(l.Due(at(15))))
}

func TestDueComesExactlyAfterTheTTL(t *testing.T) {
	var l Leases
	l.Saw(at(0), sights("a1"))

	assert.Empty(t, l.Due(at(10)-1))
	assert.Len(t, l.Due(at(10)), 1)
	next, _ := l.Next(at(10) - 1)
	assert.Equal(t, time.Nanosecond, next)
}

// Two observers come when three clients have died with an entry each.
func TestAllThatAreDeadEndAfterOneTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		dead, q, r := clients(w)
		for range 3 {
			w.join(dead.opens())
		}
		time.Sleep(time.Hour)
		began := time.Now()
		for len(w.queue) > 0 {
			for _, c := range []*client{q, r} {
				c.leases.Saw(c.now(), w.read(w.life).all)
				for _, due := range c.leases.Due(c.now()) {
					w.end(c, w.life, due)
				}
			}
			time.Sleep(time.Second)
		}

		assert.Equal(t, ttl+time.Second, time.Since(began))
		assert.Equal(t, 3, w.ends, "one of the observers ends each")
		assert.Empty(t, w.wrong)
	})
}

func TestALateRenewalKeepsASessionOnlyBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		owner, q, _ := clients(w)
		s := owner.opens()
		w.join(s)
		q.leases.Saw(q.now(), w.read(w.life).all)
		time.Sleep(ttl)
		due := q.leases.Due(q.now())
		require.Len(t, due, 1)

		assert.True(t, w.renew(s), "sent long ago")
		assert.False(t, w.end(q, w.life, due[0]))

		q.leases.Saw(q.now(), w.read(w.life).all)
		assert.Empty(t, q.leases.Due(q.now()))
		time.Sleep(ttl)
		assert.True(t, w.end(q, w.life, q.leases.Due(q.now())[0]))
		assert.False(t, w.renew(s), "sent long ago too")
		assert.Empty(t, w.wrong)
	})
}

package hub

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

var (
	own    = driver.Ref{Queue: "q", Key: script.Key(mine, 6), Place: 6}
	behind = driver.Ref{Queue: "q", Key: script.Key(mine, 9), Place: 9}
	ahead  = driver.Entry{Ref: entry, Session: theirs, Marks: 1}
)

// joined has the hub take in the answer to a Join: entry is nearest ahead of own, and has had 4 changes.
func (w *world) joined(j *Join) {
	w.Joined(j, own, ahead, 4)
	w.Unjoined(j)
}

// listening returns a world with a connection that brings all notices, and a Join that has begun.
func listening(t *testing.T) (*world, *Join) {
	t.Helper()
	w := newWorld(t, nothing)
	w.Start()
	synctest.Wait()
	return w, w.Joins()
}

// looks are those at entries.
func (w *world) looksAt() []string { return w.whats(&w.requests, "look") }

func TestWhatAJoinShowsIsWatchedWithoutALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := listening(t)
		w.joined(j)
		w.watch(entry.Target())
		w.watch(own.Target())
		synctest.Wait()
		assert.Equal(t, []string{"armed 1", "armed"}, w.seen())
		w.publish(channel, "c4:1:5:q")
		assert.Len(t, w.seen(), 2, "the answer has shown it")
		w.publish(channel, "c5:3:5:q")
		w.publish(channel, "g1:0:5:q")
		w.publish(channel, "g0:0:6:q")
		assert.Equal(t, []string{"changed 3", "gone first", "gone"}, w.seen()[2:])
		assert.Equal(t, []string{"dial", "subscribe " + channel}, w.whats(&w.requests, ""))
	})
}

// What is answered about one queue shows nothing of others.
func TestAnAnswerAboutAnotherQueueChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := listening(t)
		w.Answered("p")
		w.joined(j)
		w.Answered("p")
		w.watch(entry.Target())
		synctest.Wait()
		assert.Equal(t, []string{"armed 1"}, w.seen())
		assert.Empty(t, w.looksAt())
	})
}

// The notice has overtaken the answer, which comes on another connection.
func TestANoticeBeforeTheAnswerToAJoinCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for payload, want := range map[string]string{"g1:0:5:q": "gone first", "g0:0:5:q": "gone", "c5:3:5:q": "armed 3", "g1:0:7:q": "armed 1"} {
			w, j := listening(t)
			w.publish(channel, payload)
			w.joined(j)
			w.watch(entry.Target())
			synctest.Wait()
			assert.Equal(t, []string{want}, w.seen(), payload)
			assert.Empty(t, w.looksAt(), payload)
		}
	})
}

func TestANoticeBeforeTheWatchCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for payload, want := range map[string]string{"g1:0:5:q": "gone first", "c5:3:5:q": "armed 3", "c3:1:5:q": "armed 1"} {
			w, j := listening(t)
			w.joined(j)
			w.publish(channel, payload)
			w.watch(entry.Target())
			synctest.Wait()
			assert.Equal(t, []string{want}, w.seen(), payload)
			assert.Empty(t, w.looksAt(), payload)
			w.Left(own, false)
			assert.Empty(t, w.shown, payload)
			assert.Empty(t, w.running, payload)
		}
	})
}

// Each of these leaves it open what has happened since the Join.
func TestAWatchLooksWhereTheJoinDoesNotShowEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, between := range map[string]func(w *world, j *Join){
			"a Join between two connections": func(w *world, _ *Join) {
				w.set(func() { w.refuses["dial"] = driver.ErrUnavailable })
				w.breaks()
				before := w.Joins()
				w.set(func() { delete(w.refuses, "dial") })
				passes(time.Second)
				w.joined(before)
			},
			"a connection that broke before the answer": func(w *world, j *Join) {
				w.breaks()
				passes(time.Second)
				w.joined(j)
			},
			"a connection that broke after the answer": func(w *world, j *Join) {
				w.joined(j)
				w.breaks()
				passes(time.Second)
			},
			"another answer about the queue before that of the Join": func(w *world, j *Join) {
				w.Answered("q")
				w.joined(j)
			},
			"another answer about the queue": func(w *world, j *Join) {
				w.joined(j)
				w.Answered("q")
			},
			"the end of another own entry": func(w *world, j *Join) {
				w.joined(j)
				w.Left(driver.Ref{Queue: "q", Key: script.Key(mine, 3), Place: 3}, true)
			},
			"a later Join": func(w *world, j *Join) {
				w.joined(j)
				w.Joined(w.Joins(), behind, driver.Entry{}, 0)
			},
			"a later Join that was answered before": func(w *world, j *Join) {
				w.Joined(w.Joins(), behind, driver.Entry{}, 0)
				w.joined(j)
			},
			"the Join of another entry": func(w *world, j *Join) {
				w.Joined(j, driver.Ref{Queue: "q", Key: script.Key(mine, 9), Place: 9}, driver.Entry{}, 0)
			},
			"an own entry that has left": func(w *world, j *Join) {
				w.joined(j)
				w.Left(own, false)
			},
			"an own entry that was deleted before the answer": func(w *world, j *Join) {
				w.publish(channel, "g0:0:6:q")
				w.joined(j)
			},
		} {
			w, j := listening(t)
			w.set(func() { w.header = "" })
			between(w, j)
			w.watch(entry.Target())
			w.watch(own.Target())
			synctest.Wait()
			assert.Equal(t, []string{"gone", "gone"}, w.seen(), name)
			assert.Equal(t, []string{"look e:q:5 e:q:6"}, w.looksAt(), name)
		}
	})
}

func TestALostConnectionIsReportedToAWatchWithoutALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := listening(t)
		w.joined(j)
		w.watch(entry.Target())
		w.set(func() { w.header = "" })
		w.breaks()
		passes(time.Second)
		assert.Equal(t, []string{"armed 1", "lost", "gone"}, w.seen())
		assert.Empty(t, w.shown)
	})
}

// What one look shows may be newer than the notices about other entries of the queue.
func TestALookEndsWhatAJoinHasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := listening(t)
		w.joined(j)
		w.watch(driver.Ref{Queue: "q", Key: script.Key(theirs, 4), Place: 4}.Target())
		synctest.Wait()
		w.watch(entry.Target())
		synctest.Wait()
		assert.Equal(t, []string{"look e:q:4", "look e:q:5"}, w.looksAt())
	})
}

// The other entry was deleted first, and a watch of it is armed: that an entry is gone must not be reported
// before that.
func TestALookIsReportedAfterTheNoticesBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := listening(t)
		w.joined(j)
		w.watch(own.Target())
		synctest.Wait()
		w.set(func() {
			w.header, w.requests = "", nil
			late := true
			w.during = func(what string) {
				if late && strings.HasPrefix(what, "subscribe") {
					late = false
					w.notice(channel, "g1:0:6:q")
				}
			}
		})
		w.watch(driver.Ref{Queue: "q", Key: script.Key(theirs, 4), Place: 4}.Target())
		synctest.Wait()
		assert.Equal(t, []string{"look e:q:4", "subscribe " + channel}, w.whats(&w.requests, ""))
		assert.Equal(t, []string{"armed", "gone first", "gone"}, w.seen())
	})
}

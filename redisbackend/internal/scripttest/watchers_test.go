package scripttest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
)

// notices returns a function that returns what the root has published since the last call: the channel of each,
// without what all begin with, and the message.
func (r *root) notices() func() []string {
	r.t.Helper()
	all := make(chan string, 1000)
	d, release := server.Dedicate()
	r.t.Cleanup(release)
	d.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { all <- strings.TrimPrefix(m.Channel, r.prefix+"c:") + " " + m.Message },
	})
	require.NoError(r.t, d.Do(hang.Context(r.t), d.B().Psubscribe().Pattern(r.prefix+"*").Build()).Error())
	return func() (got []string) {
		command(r.t, "PUBLISH", r.prefix+"c:", "end")
		for n := range all {
			if n == " end" {
				return got
			}
			got = append(got, n)
		}
		return nil
	}
}

// joins has a new session join queue q, and returns the place.
func (r *root) joins(session string) int64 {
	r.t.Helper()
	r.opens(session)
	reply := r.join(turn{session: session, number: 1}, "q", false)
	require.Equal(r.t, script.OK, reply.Text(0))
	return reply.Int(1)
}

func (r *root) watchers(place int64) string {
	r.t.Helper()
	return command(r.t, "HGET", r.prefix+"h:q", strconv.FormatInt(place, 10)+"w")
}

// watch looks at an entry of queue q for a session, and returns its header.
func (r *root) watch(session string, place int64) string {
	r.t.Helper()
	a := script.Args{r.life, session, "0", "0", "1", "e", "q"}
	a.Int(place)
	return r.reply(&r.set.Watch, a...).List(2).Text(0)
}

func TestAJoinWatchesTheEntryAhead(t *testing.T) {
	r := newRoot(t)
	a, b, c := r.joins("a-1000"), r.joins("b-1000"), r.joins("c-1000")
	again := r.join(turn{session: "c-1000", number: 2}, "q", false).Int(1)
	assert.Equal(t, "b-1000 ", r.watchers(a))
	assert.Equal(t, "c-1000 ", r.watchers(b))
	assert.Empty(t, r.watchers(c), "it is of the same session, which is notified anyway")
	r.leave(turn{session: "b-1000", number: 2}, "q", b)
	assert.Empty(t, r.watchers(b))
	r.join(turn{session: "b-1000", number: 3}, "q", false)
	assert.Equal(t, "b-1000 ", r.watchers(again))
}

func TestAWatchIsNotedOnce(t *testing.T) {
	r := newRoot(t)
	a := r.joins("a-1000")
	header := "a-1000 1 1 0 0 0"
	for range 2 {
		assert.Equal(t, header, r.watch("b-1000", a))
		assert.Equal(t, header, r.watch("c-1000", a))
		assert.Equal(t, header, r.watch("a-1000", a))
	}
	assert.Equal(t, "b-1000 c-1000 ", r.watchers(a))
	assert.Empty(t, r.watch("b-1000", a+1))
	assert.Equal(t, "3", command(t, "HLEN", r.prefix+"h:q"), "nothing is noted of an entry that is gone")
}

// The owner has the answer to its own Leave.
func TestTheWatchersOfAnEntryAreNotified(t *testing.T) {
	r := newRoot(t)
	notices := r.notices()
	a, b := r.joins("a-1000"), r.joins("b-1000")
	assert.Equal(t, []string{":q e", ":q e"}, notices())
	r.watch("c-1000", a)
	assert.Empty(t, notices())

	update := append(turn{session: "a-1000", number: 2}.args(r.life), "q", strconv.FormatInt(a, 10), "2", "0", "", "0", "", "0")
	r.run(&r.set.Update, update...)
	what := fmt.Sprintf("c1:2:%d:q", a)
	assert.Equal(t, []string{":q " + what, "a-1000 " + what, "b-1000 " + what, "c-1000 " + what}, notices())

	r.leave(turn{session: "a-1000", number: 3}, "q", a)
	what = fmt.Sprintf("g1:2:%d:q", a)
	assert.Equal(t, []string{":q " + what, "b-1000 " + what, "c-1000 " + what}, notices())

	r.run(&r.set.Finish, r.life, "b-1000", "")
	what = fmt.Sprintf("g0:0:%d:q", b)
	assert.Equal(t, []string{":q " + what, "b-1000 " + what}, notices(), "it may have ended without knowing")
}

// An operator deletes the entry of another one.
func TestTheOwnerIsNotifiedOfADeletion(t *testing.T) {
	r := newRoot(t)
	a := r.joins("a-1000")
	r.joins("b-1000")
	notices := r.notices()
	args := append(turn{session: "o1", number: 1}.args(r.life), "1", "q", strconv.FormatInt(a, 10), "0", "1", "0")
	assert.EqualValues(t, 1, r.reply(&r.set.Leave, args...).List(1).Int(0))
	what := fmt.Sprintf("g0:0:%d:q", a)
	assert.Equal(t, []string{":q " + what, "a-1000 " + what, "b-1000 " + what}, notices())
}

// Sessions that come and go must not make the list of a holder grow.
func TestWatchersThatAreOverAreForgotten(t *testing.T) {
	r := newRoot(t)
	a := r.joins("a-1000")
	r.opens("lives-1000")
	r.watch("lives-1000", a)
	for i := range 63 {
		r.watch(fmt.Sprintf("dead%d-1000", i), a)
	}
	assert.Len(t, strings.Fields(r.watchers(a)), 64)
	r.watch("new-1000", a)
	assert.Equal(t, "lives-1000 new-1000 ", r.watchers(a))
}

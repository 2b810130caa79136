package zookeeper

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// gpu is a request for one permit of a semaphore with that limit.
func gpu(limit string) driver.JoinRequest {
	return driver.JoinRequest{
		Queue: "gpu", Mode: driver.Weighted, Weight: 1,
		Ops: []driver.Op{{Record: "limit", If: driver.EqualOrAbsent([]byte(limit)), Value: []byte(limit)}},
	}
}

// slot takes a slot that goes with the session.
func slot(n string) driver.Op {
	return driver.Op{Record: "slot/" + n, If: driver.Absent(), Value: []byte("mine"), Bound: true}
}

// TestNothingForeignLiesInAQueue: whatever a queue is used for, other programs find
// entries there and nothing else. go-zookeeper's Lock, which fails on all else, is
// granted in its turn.
func TestNothingForeignLiesInAQueue(t *testing.T) {
	e, root := shared(t)
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	conn := e.Client(t)
	ctx := recipetest.Bounded(t)
	req := gpu("2")
	ledger := driver.Op{Record: "ledger", If: driver.Absent(), Value: []byte("mine")}
	req.Ops = append(req.Ops, ledger)
	j := o.joinWith(t, req).Entry.Ref
	o.update(t, j, driver.UpdateRequest{Marks: driver.MarkAdmitted, Ops: []driver.Op{slot("0")}})
	v := o.joinWith(t, driver.JoinRequest{Queue: "gpu", Data: []byte("x"), Valued: true, Detail: []byte("{}")}).Entry.Ref

	for _, name := range children(t, conn, root+"/gpu") {
		assert.Regexp(t, zkEntry, name)
	}
	side := root + "/%v2/gpu"
	assert.ElementsMatch(t, []string{"details", "holders", "records"}, children(t, conn, side))
	names, err := o.Names(ctx, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"gpu"}, names)
	stock := zk.NewLock(conn, root+"/gpu", zk.WorldACL(zk.PermAll))
	taken := make(chan error, 1)
	go func() { taken <- stock.Lock() }()
	awaitEntries(t, conn, root+"/gpu", 3)
	free := slot("0")
	free.If, free.Value = driver.Equal(free.Value), nil
	ledger.If, ledger.Value = driver.Equal(ledger.Value), nil
	for _, req := range []driver.LeaveRequest{{Ref: j, Ops: []driver.Op{free, ledger}}, {Ref: v}} {
		_, err := o.Leave(ctx, req)
		require.NoError(t, err)
	}
	require.NoError(t, recipetest.Wait(t, taken, "zk.Lock"))
	require.NoError(t, stock.Unlock())
	assert.Empty(t, children(t, conn, side+"/holders"), "it went with its entry")
	assert.Empty(t, children(t, conn, side+"/details"), "it went with its entry")
	records := children(t, conn, side+"/records")
	require.Len(t, records, 2, "the limit stays: its value, and its version")
	for _, name := range records {
		assert.Regexp(t, regexp.MustCompile(`^limit(@[0-9a-z]+)?$`), name)
	}
}

// TestALimitThatWasMadeAnewIsNotTakenForTheOldOne: its node, and the folder of records,
// have the number of writes that the old ones had.
func TestALimitThatWasMadeAnewIsNotTakenForTheOldOne(t *testing.T) {
	e, root := shared(t)
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	other := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	conn := e.Client(t)
	o.joinWith(t, gpu("2"))
	dir := root + "/%v2/gpu/records"
	for _, name := range children(t, conn, dir) {
		require.NoError(t, conn.Delete(dir+"/"+name, -1))
	}
	require.NoError(t, conn.Delete(dir, -1))
	other.joinWith(t, gpu("9"))

	_, err := o.Join(recipetest.Bounded(t), gpu("2"))
	var refused *driver.RefusedError
	require.ErrorAs(t, err, &refused)
	assert.True(t, refused.Known)
	assert.Equal(t, "9", string(refused.Record.Value))
	o.joinWith(t, gpu("9"))
	assert.Len(t, children(t, conn, root+"/gpu"), 3)
}

// TestWatchesOutliveTheirFolders: the servers remove empty folders as fast as they can.
func TestWatchesOutliveTheirFolders(t *testing.T) {
	e := zktest.New(t, &zktest.Options{ContainerCheck: 50 * time.Millisecond})
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{}, e.Endpoints()...)
	other := drive(t, recipetest.CalmTTL, zkbackend.Options{}, e.Endpoints()...)
	conn := e.Client(t)
	for _, w := range []struct {
		target driver.Target
		dir    string
		change driver.UpdateRequest
	}{
		{driver.Target{Kind: driver.OfHolders, Queue: "gpu"}, "/fairlock/%v2/gpu/holders", driver.UpdateRequest{Marks: driver.MarkAdmitted}},
		{driver.Target{Kind: driver.OfRecord, Queue: "gpu", Record: "slot/0"}, "/fairlock/%v2/gpu/records", driver.UpdateRequest{Ops: []driver.Op{slot("0")}}},
		{driver.Target{Kind: driver.OfQueue, Queue: "gpu"}, "/fairlock/gpu", driver.UpdateRequest{}},
	} {
		events := make(chan driver.EventKind, 1000)
		cancel := o.Watch(w.target, func(ev driver.Event) { events <- ev.Kind })
		require.Equal(t, driver.Armed, recipetest.Wait(t, events, "the watch"))
		for range 3 {
			ref := other.joinWith(t, driver.JoinRequest{Queue: "gpu", Mode: driver.Weighted, Weight: 1}).Entry.Ref
			other.update(t, ref, w.change)
			for driver.Lost == recipetest.Wait(t, events, "a change in "+w.dir) { // a watch that is armed again reports it too
			}
			_, before, err := conn.Exists(w.dir)
			require.NoError(t, err)
			free := slot("0")
			free.If, free.Value = driver.Equal(free.Value), nil
			_, err = other.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: ref, Ops: []driver.Op{free}})
			require.NoError(t, err)
			recipetest.Until(t, "the folder is removed and made again", func() bool {
				there, stat, err := conn.Exists(w.dir)
				return err == nil && there && stat.Czxid > before.Czxid
			})
			recipetest.Until(t, "the watch is armed again", func() bool {
				armed := false
				for len(events) > 0 {
					armed = <-events == driver.Armed || armed
				}
				return armed
			})
		}
		cancel()
	}
}

// TestTheLongestDataIsTaken by servers with the default jute.maxbuffer, under the longest
// paths, and one byte more is refused before anything is sent.
func TestTheLongestDataIsTaken(t *testing.T) {
	for _, n := range []int{1, 3} {
		e := zktest.New(t, &zktest.Options{Members: n})
		w := &wire{}
		root := "/" + strings.Repeat("r", 500)
		o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
		most := o.backend.Info().MaxData
		queue := strings.Repeat("\x01", 512)
		detail := strings.Repeat("d", 2<<10)
		ref := o.joinWith(t, driver.JoinRequest{
			Queue: queue, Data: make([]byte, most), Valued: true, Detail: []byte(detail),
			Ops: []driver.Op{{Record: "ledger", If: driver.Absent(), Value: []byte(strings.Repeat("l", 64))}},
		}).Entry.Ref
		value := strings.Repeat("x", most)
		o.write(t, ref, value)
		all := o.queue(t, queue).Entries
		require.Len(t, all, 1)
		assert.Equal(t, len(value), len(all[0].Data))
		assert.Equal(t, detail, string(all[0].Detail))

		w.forget()
		long := make([]byte, most+1)
		_, err := o.Join(recipetest.Bounded(t), driver.JoinRequest{Queue: queue, Data: long, Valued: true})
		require.ErrorIs(t, err, driver.ErrRefused)
		_, err = o.Update(recipetest.Bounded(t), driver.UpdateRequest{Queue: queue, Entry: ref, Data: long})
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.Zero(t, w.count(counts))
		assert.Empty(t, o.losses())
	}
}

// TestTheMarkAdmittedIsNoRelease: the end of an entry whose owner has changed it is not
// reported as that of an entry that was first.
func TestTheMarkAdmittedIsNoRelease(t *testing.T) {
	e, root := shared(t)
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	other := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	o.joinWith(t, gpu("2"))
	ref := o.joinWith(t, gpu("2")).Entry.Ref
	events := make(chan driver.Event, 10)
	defer other.Watch(ref.Target(), func(ev driver.Event) { events <- ev })()
	require.Equal(t, driver.Armed, recipetest.Wait(t, events, "the watch").Kind)
	o.admit(t, ref)
	require.NoError(t, o.quit(t, driver.Joined{Entry: driver.Entry{Ref: ref}}))

	var last driver.Event
	for last.Kind != driver.Gone {
		last = recipetest.Wait(t, events, "the end")
	}
	assert.Equal(t, driver.Event{Kind: driver.Gone}, last)
}

// TestAnEntryThatLeavesAfterAnUnansweredMarkLeavesNothing: its owner does not know whether
// it has the mark.
func TestAnEntryThatLeavesAfterAnUnansweredMarkLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		req  driver.JoinRequest
		mark driver.Marks
	}{
		{driver.JoinRequest{Queue: "gpu", Family: driver.FamilyReadWrite}, driver.MarkShared},
		{gpu("2"), driver.MarkAdmitted},
	} {
		e, root := shared(t)
		ctx, giveUp := context.WithCancel(recipetest.Bounded(t))
		w := &wire{reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
			for _, p := range request.Parts() {
				if p.Op == zkframe.OpCreate && p.Flags == zk.FlagEphemeral && (zkEntry.MatchString(p.Path) || strings.Contains(p.Path, "/holders/")) {
					giveUp()
					return nil, false
				}
			}
			return f, true
		}}
		o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
		j := o.joinWith(t, c.req)
		_, err := o.Update(ctx, driver.UpdateRequest{Queue: "gpu", Entry: j.Entry.Ref, Marks: c.mark})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, driver.ErrGone)
		require.NoError(t, o.quit(t, j))
		conn := e.Client(t)
		assert.Empty(t, children(t, conn, root+"/gpu"))
		assert.Empty(t, children(t, conn, root+"/%v2/gpu/holders"))
	}
}

// TestAnEntryThatLeavesAfterAnUnansweredDetailLeavesNothing: the session goes on, so a
// detail that stays would stay for long.
func TestAnEntryThatLeavesAfterAnUnansweredDetailLeavesNothing(t *testing.T) {
	e, root := shared(t)
	conn := e.Client(t)
	folder(t, conn, root+"/%v2/x/details")
	ctx, giveUp := context.WithCancel(recipetest.Bounded(t))
	returned := make(chan struct{})
	w := &wire{reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
		for _, p := range request.Parts() {
			if p.Op == zkframe.OpCreate && strings.Contains(p.Path, "/details/") {
				giveUp()
				<-returned // the answer comes after that
			}
		}
		return f, true
	}}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
	j := o.join(t, "x")
	_, err := o.Update(ctx, driver.UpdateRequest{Queue: "x", Entry: j.Entry.Ref, Detail: []byte("{}")})
	close(returned)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, o.quit(t, j))
	assert.Empty(t, children(t, conn, root+"/x"))
	assert.Empty(t, children(t, conn, root+"/%v2/x/details"))
}

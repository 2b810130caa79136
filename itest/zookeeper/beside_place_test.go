package zookeeper

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// gpu is a request for a semaphore's line.
func gpu(limit int64) driver.JoinRequest {
	return driver.JoinRequest{Line: "gpu", Mode: driver.Weighted, Weight: 1, Limit: limit}
}

// TestNothingForeignLiesInALine: whatever a line is used for, other programs find
// entries there and nothing else, and go-zookeeper's Lock, which fails on all that
// is none, takes its turn.
func TestNothingForeignLiesInALine(t *testing.T) {
	e, root := shared(t)
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	conn := e.Client(t)
	ctx := recipetest.Bounded(t)
	req := gpu(2)
	req.Ledger = true
	j, err := o.Join(ctx, req)
	require.NoError(t, err)
	require.NoError(t, o.Admit(ctx, j.Entry.Ref))
	_, err = o.Claim(ctx, j.Entry.Ref)
	require.NoError(t, err)
	v, err := o.Join(ctx, driver.JoinRequest{Line: "gpu", Value: []byte("x")})
	require.NoError(t, err)

	for _, name := range children(t, conn, root+"/gpu") {
		assert.Regexp(t, zkEntry, name)
	}
	assert.ElementsMatch(t, []string{"limit", "holders", "slot", "meta", "ledger"}, children(t, conn, root+"/%beside/gpu"))
	names, err := o.backend.Names(ctx, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"gpu"}, names)
	stock := zk.NewLock(conn, root+"/gpu", zk.WorldACL(zk.PermAll))
	taken := make(chan error, 1)
	go func() { taken <- stock.Lock() }()
	lined(t, conn, root+"/gpu", 3)
	for _, ref := range []driver.Ref{j.Entry.Ref, v.Entry.Ref} {
		_, err := o.Leave(ctx, driver.LeaveRequest{Ref: ref, Clean: true})
		require.NoError(t, err)
	}
	require.NoError(t, recipetest.Wait(t, taken, "zk.Lock"))
	require.NoError(t, stock.Unlock())
	for _, dir := range []string{"/holders", "/slot", "/meta"} {
		assert.Empty(t, children(t, conn, root+"/%beside/gpu"+dir), "what hung on an entry went with it")
	}
	assert.NotContains(t, children(t, conn, root+"/%beside/gpu"), "ledger", "a clean ledger is none")
	assert.Equal(t, []string{"2"}, children(t, conn, root+"/%beside/gpu/limit"), "the limit stays")
}

// TestALimitThatWasMadeAnewIsNotTakenForTheOld: the folder's version is what it
// was, and so would be that of a node with the number as its data.
func TestALimitThatWasMadeAnewIsNotTakenForTheOld(t *testing.T) {
	e, root := shared(t)
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	other := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	conn := e.Client(t)
	_, err := o.Join(recipetest.Bounded(t), gpu(2))
	require.NoError(t, err)
	dir := root + "/%beside/gpu/limit"
	require.NoError(t, conn.Delete(dir+"/2", -1))
	require.NoError(t, conn.Delete(dir, -1))
	_, err = other.Join(recipetest.Bounded(t), gpu(9))
	require.NoError(t, err)

	_, err = o.Join(recipetest.Bounded(t), gpu(2))
	var mismatch *driver.LimitError
	require.ErrorAs(t, err, &mismatch)
	assert.Equal(t, driver.LimitError{Limit: 9, Asked: 2}, *mismatch)
	follow := gpu(2)
	follow.Follow = true
	j, err := o.Join(recipetest.Bounded(t), follow)
	require.NoError(t, err)
	assert.EqualValues(t, 9, j.Limit)
}

// TestBellsAreHeardAfterTheirFolderWasRemoved: the servers remove empty folders
// as fast as they can.
func TestBellsAreHeardAfterTheirFolderWasRemoved(t *testing.T) {
	e := zktest.New(t, &zktest.Options{ContainerCheck: 50 * time.Millisecond})
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{}, e.Endpoints()...)
	other := drive(t, recipetest.CalmTTL, zkbackend.Options{}, e.Endpoints()...)
	conn := e.Client(t)
	type bell struct {
		of   driver.Aspect
		dir  string
		ring func(j driver.Joined) error
	}
	for _, b := range []bell{
		{driver.OfAdmitted, "/fairlock/%beside/gpu/holders", func(j driver.Joined) error { return other.Admit(recipetest.Bounded(t), j.Entry.Ref) }},
		{driver.OfLine, "/fairlock/gpu", func(driver.Joined) error { return nil }},
	} {
		heard := make(chan driver.EventKind, 1000)
		cancel := o.Watch(driver.WatchRequest{Ref: driver.Ref{Line: "gpu"}, Of: b.of}, func(ev driver.Event) { heard <- ev.Kind })
		require.Equal(t, driver.Armed, recipetest.Wait(t, heard, "the watch"))
		for range 3 {
			j, err := other.Join(recipetest.Bounded(t), gpu(2))
			require.NoError(t, err)
			require.NoError(t, b.ring(j))
			require.Equal(t, driver.Changed, recipetest.Wait(t, heard, "news"))
			_, before, err := conn.Exists(b.dir)
			require.NoError(t, err)
			_, err = other.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: j.Entry.Ref})
			require.NoError(t, err)
			recipetest.Until(t, "the folder is removed and made again", func() bool {
				there, stat, err := conn.Exists(b.dir)
				return err == nil && there && stat.Czxid > before.Czxid
			})
			for len(heard) > 0 {
				<-heard
			}
		}
		cancel()
	}
}

// TestTheLongestValueIsTaken by servers with the default jute.maxbuffer, under the
// longest paths, and one byte more is refused before anything is sent.
func TestTheLongestValueIsTaken(t *testing.T) {
	for _, n := range []int{1, 3} {
		e := zktest.New(t, &zktest.Options{Members: n})
		w := &wire{}
		root := "/" + strings.Repeat("r", 500)
		o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
		most := o.backend.Profile().MaxValue
		line := strings.Repeat("\x01", 512)
		meta := driver.Meta{Label: strings.Repeat("l", 128), Holds: []string{strings.Repeat("h", 700)}}
		j, err := o.Join(recipetest.Bounded(t), driver.JoinRequest{Line: line, Value: make([]byte, most), Meta: meta, Ledger: true})
		require.NoError(t, err)
		value := []byte(strings.Repeat("x", most))
		require.NoError(t, o.Write(recipetest.Bounded(t), j.Entry.Ref, value))
		all, err := o.backend.List(recipetest.Bounded(t), line, 0)
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.Equal(t, len(value), len(all[0].Value))
		assert.Equal(t, meta, all[0].Meta)

		w.forget()
		_, err = o.Join(recipetest.Bounded(t), driver.JoinRequest{Line: line, Value: make([]byte, most+1)})
		require.ErrorIs(t, err, driver.ErrRefused)
		require.ErrorIs(t, o.Write(recipetest.Bounded(t), j.Entry.Ref, make([]byte, most+1)), driver.ErrRefused)
		assert.Zero(t, w.count(counts))
		assert.Empty(t, o.losses())
	}
}

// TestAnAdmissionIsNoRelease: whoever asks for word of a hold behind an entry that
// its owner changes is not told that it has gone.
func TestAnAdmissionIsNoRelease(t *testing.T) {
	e, root := shared(t)
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	other := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	j, err := o.Join(recipetest.Bounded(t), gpu(2))
	require.NoError(t, err)
	v, err := o.Join(recipetest.Bounded(t), driver.JoinRequest{Line: "gpu", Value: []byte("x")})
	require.NoError(t, err)
	for _, c := range []struct {
		ref    driver.Ref
		change func(ctx context.Context) error
	}{
		{j.Entry.Ref, func(ctx context.Context) error { return o.Admit(ctx, j.Entry.Ref) }},
		{v.Entry.Ref, func(ctx context.Context) error { return o.Write(ctx, v.Entry.Ref, []byte("y")) }},
	} {
		events := make(chan driver.Event, 10)
		defer other.Watch(driver.WatchRequest{Ref: c.ref, Tell: true}, func(ev driver.Event) { events <- ev })()
		assert.Equal(t, driver.Armed, recipetest.Wait(t, events, "the watch").Kind)
		require.NoError(t, c.change(recipetest.Bounded(t)))
		_, err := o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: c.ref})
		require.NoError(t, err)
		assert.Equal(t, driver.Event{Kind: driver.Gone}, recipetest.Wait(t, events, "the end"), "the leave is told, and no hold")
	}
}

// TestAWriterThatLeavesAfterAnUnansweredShareLeavesNoReader: its place was taken
// by a reader of which it has not heard.
func TestAWriterThatLeavesAfterAnUnansweredShareLeavesNoReader(t *testing.T) {
	e, root := shared(t)
	ctx, giveUp := context.WithCancel(recipetest.Bounded(t))
	w := &wire{reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
		for _, p := range request.Parts() {
			if p.Op == zkframe.OpCreate && p.Flags == zk.FlagEphemeral && strings.Contains(p.Path, "__READ__") {
				giveUp()
				return nil, false
			}
		}
		return f, true
	}}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
	j, err := o.Join(recipetest.Bounded(t), driver.JoinRequest{Line: "cfg", Kin: driver.KinReadWrite})
	require.NoError(t, err)
	_, err = o.Share(ctx, j.Entry.Ref)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, driver.ErrGone)
	_, err = o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: j.Entry.Ref, Held: true})
	require.NoError(t, err)
	assert.Empty(t, children(t, e.Client(t), root+"/cfg"))
}

// TestAnAdmissionThatComesWhileItsEntryLeavesStaysNot: Leave has found no bell, and
// before it comes again there is one.
func TestAnAdmissionThatComesWhileItsEntryLeavesStaysNot(t *testing.T) {
	e, root := shared(t)
	conn := e.Client(t)
	var bell string
	w := &wire{reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
		if request.Op() == zkframe.OpMulti && writes(request) == fault.Leave && bell != "" {
			_, err := conn.Create(bell, nil, 0, zk.WorldACL(zk.PermAll))
			assert.NoError(t, err)
			bell = ""
		}
		return f, true
	}}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
	first, err := o.Join(recipetest.Bounded(t), gpu(2))
	require.NoError(t, err)
	require.NoError(t, o.Admit(recipetest.Bounded(t), first.Entry.Ref))
	j, err := o.Join(recipetest.Bounded(t), gpu(2))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, o.Admit(ctx, j.Entry.Ref))
	bell = root + "/%beside/gpu/holders" + strings.TrimPrefix(j.Entry.Key, root+"/gpu")
	_, err = o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: j.Entry.Ref})
	require.NoError(t, err)
	assert.Len(t, children(t, conn, root+"/%beside/gpu/holders"), 1)
	assert.Len(t, children(t, conn, root+"/gpu"), 1)
}

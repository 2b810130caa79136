package zookeeper

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// TestTheQueueIsSharedWithCuratorsOtherRecipes has stock Curator share a queue
// with ours: its read-write lock, its LeaderLatch and its LeaderSelector.
func TestTheQueueIsSharedWithCuratorsOtherRecipes(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	curator := startCurator(t, e)
	t.Run("ReadersAndWriters", func(t *testing.T) { curatorReadsAndWrites(t, root, curator) })
	t.Run("DowngradeLetsNoWriterIn", func(t *testing.T) { curatorSeesDowngrades(t, root, curator) })
	for kind, o := range map[string]election.Options{"latch": {Latch: true}, "selector": {}} {
		t.Run(kind, func(t *testing.T) { curatorLeads(t, root, curator, kind, o) })
	}
}

// contending is a request of either side in a queue.
type contending struct {
	ours   *recipetest.Request
	theirs *actor
	got    chan struct{} // closed when it is granted
}

// readWriteQueue is a queue of readers and writers of both sides.
type readWriteQueue struct {
	t       *testing.T
	root    string
	p       *lockClient
	curator *program
	monitor *monitor
	count   int
}

// join puts a reader ("r") or a writer ("w") of ours, or of Curator's ("R", "W"),
// at the end of the queue.
func (l *readWriteQueue) join(kind string) *contending {
	l.t.Helper()
	x := &contending{got: make(chan struct{})}
	ctx := recipetest.Bounded(l.t)
	rw := rwlock.New(l.p.Session, "rw")
	switch kind {
	case "r":
		x.ours = l.p.BeginWith(func() (*session.Hold, error) { return rw.RLock(ctx) })
	case "w":
		x.ours = l.p.BeginWith(func() (*session.Hold, error) { return rw.Lock(ctx) })
	default:
		x.theirs = l.curator.open(l.t, map[string]string{"R": "read", "W": "write"}[kind], l.root+"/rw")
		x.theirs.command(l.t, "acquire")
	}
	go func() { // ends with the request, or with the program
		if x.ours != nil {
			<-x.ours.Done
			close(x.got)
			return
		}
		select {
		case <-x.theirs.answers:
			close(x.got)
		case <-l.curator.process.Done():
		}
	}()
	l.count++
	l.monitor.Sees(l.t, l.count)
	return x
}

func (l *readWriteQueue) granted(xs ...*contending) {
	l.t.Helper()
	for _, x := range xs {
		recipetest.Wait(l.t, x.got, "a grant")
		if x.ours != nil {
			require.NoError(l.t, x.ours.Err)
		}
	}
}

func (l *readWriteQueue) waits(xs ...*contending) {
	l.t.Helper()
	for _, x := range xs {
		select {
		case <-x.got:
			require.Fail(l.t, "granted before its turn")
		default:
		}
	}
}

func (l *readWriteQueue) release(xs ...*contending) {
	l.t.Helper()
	for _, x := range xs {
		l.count--
		if x.ours != nil {
			recipetest.Unlock(l.t, x.ours.Hold)
		} else {
			x.theirs.does(l.t, "release")
		}
	}
}

func newReadWriteQueue(t *testing.T, root string, curator *program) *readWriteQueue {
	e, _ := shared(t)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	return &readWriteQueue{t: t, root: root, p: p, curator: curator, monitor: monitorOf(t, e, root+"/rw")}
}

func curatorReadsAndWrites(t *testing.T, root string, curator *program) {
	l := newReadWriteQueue(t, root, curator)
	w1 := l.join("w")
	l.granted(w1)
	r2, r3 := l.join("R"), l.join("r")
	w4 := l.join("W")
	r5, r6 := l.join("r"), l.join("R")
	w7 := l.join("w")
	entries, err := rwlock.New(l.p.Session, "rw").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, entries, 7)
	for i, want := range []session.Mode{session.Exclusive, session.Shared, session.Shared, session.Exclusive, session.Shared, session.Shared, session.Exclusive} {
		assert.Equal(t, want, entries[i].Mode, "number %d, %s", i, entries[i].Key)
	}
	l.waits(r2, r3, w4, r5, r6, w7)
	l.release(w1)
	l.granted(r2, r3)
	l.waits(w4, r5, r6, w7)
	l.release(r3)
	l.waits(w4)
	l.release(r2)
	l.granted(w4)
	l.waits(r5, r6, w7)
	l.release(w4)
	l.granted(r5, r6)
	l.waits(w7)
	l.release(r6)
	l.waits(w7)
	l.release(r5)
	l.granted(w7)
	l.release(w7)
	l.monitor.SeesNothingLeft(t)
	l.p.Kept(t)
}

// curatorSeesDowngrades has a writer of ours become a reader, with readers and writers of
// both sides behind it. Our readers are granted at once, and Curator's at its unlock.
func curatorSeesDowngrades(t *testing.T, root string, curator *program) {
	for _, behind := range []string{"RrWrw", "WRr", "wRr", "rRw"} {
		l := newReadWriteQueue(t, root, curator)
		first := l.join("w")
		l.granted(first)
		var readers, theirs, others []*contending
		for i := range len(behind) {
			kind := behind[i : i+1]
			x := l.join(kind)
			switch {
			case kind == "r" && len(others) == 0:
				readers = append(readers, x)
			case kind == "R" && len(others) == 0:
				theirs = append(theirs, x)
			default:
				others = append(others, x)
			}
		}
		h := first.ours.Hold
		token := h.Token()
		require.NoError(t, rwlock.New(l.p.Session, "rw").Downgrade(recipetest.Bounded(t), h))
		l.granted(readers...)
		l.waits(append(theirs, others...)...)
		entries, err := rwlock.New(l.p.Session, "rw").Queue(recipetest.Bounded(t))
		require.NoError(t, err)

		assert.Equal(t, session.Shared, entries[0].Mode, behind)
		assert.EqualValues(t, token, entries[0].Token, behind)
		assert.Equal(t, recipetest.Refs(h)[0], recipetest.Detail(entries[0]).Ref, behind)
		assert.Equal(t, token, h.Token())
		require.NoError(t, h.Context().Err())
		l.release(first)
		l.granted(theirs...)
		readers = append(readers, theirs...)
		if len(readers) > 0 {
			l.waits(others...)
		}
		l.release(readers...)
		for len(others) > 0 {
			l.granted(others[0])
			l.release(others[0])
			others = others[1:]
		}
		l.monitor.SeesNothingLeft(t)
		l.p.Kept(t)
	}
}

// curatorLeads has candidates of both sides take turns, and know each other.
func curatorLeads(t *testing.T, root string, curator *program, kind string, o election.Options) {
	e, _ := shared(t)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	monitor := monitorOf(t, e, root+"/"+kind)
	el := election.NewWith(p.Session, kind, o)
	ctx := recipetest.Bounded(t)
	campaign := func(value string) *recipetest.Request {
		return p.BeginWith(func() (*session.Hold, error) { return el.Campaign(ctx, value) })
	}
	first := campaign("ours-1")
	h := first.Granted(t)
	theirs := curator.open(t, kind, root+"/"+kind)
	theirs.command(t, "acquire")
	monitor.Sees(t, 2)
	second := campaign("ours-2")
	monitor.Sees(t, 3)
	observer := curator.open(t, kind, root+"/"+kind)
	leads := func(want string) {
		t.Helper()
		observer.command(t, "leader")
		assert.Equal(t, []string{want}, observer.answer(t, "leader"))
		l, err := el.Leader(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, l.Value)
	}
	leads("ours-1")
	if err := el.Proclaim(ctx, h, "ours-1b"); o.Latch {
		require.ErrorIs(t, err, session.ErrRefused)
	} else {
		require.NoError(t, err)
		leads("ours-1b")
	}
	second.Waits(t)
	recipetest.Unlock(t, h)
	theirs.acquired(t)
	leads(theirs.name)
	second.Waits(t)
	theirs.does(t, "release")
	h2 := second.Granted(t)
	leads("ours-2")
	assert.Greater(t, h2.Token(), h.Token())
	recipetest.Unlock(t, h2)
	monitor.SeesNothingLeft(t)
	p.Kept(t)
}

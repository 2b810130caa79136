package drivertest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// owner is a session, and what it reports. Its methods that are named like those of
// driver.Session in lower case make the call and end the case if it fails.
type owner struct {
	driver.Session
	w      *fixture
	c      Client
	inside atomic.Int32 // watch callbacks that are running

	mu       sync.Mutex
	renewals []renewal
	gone     []error
	closed   bool
}

// renewal is a call of Config.Renewed, and when it came.
type renewal struct {
	sent, at driver.Instant
	ttl, lag time.Duration
}

// open opens a session on a client of its own.
func (w *fixture) open() *owner { return w.openOn(w.client()) }

// openOn opens a session that is closed with the case.
func (w *fixture) openOn(c Client) *owner {
	w.t.Helper()
	return w.openWith(c, false)
}

// observe opens an observer on a client of its own.
func (w *fixture) observe() *owner {
	w.t.Helper()
	return w.openWith(w.client(), true)
}

func (w *fixture) openWith(c Client, observer bool) *owner {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.soon())
	defer stop() // a session outlives the context of Open
	o, err := w.tryOpen(ctx, c, observer)
	require.NoError(w.t, err, "Open")
	return o
}

func (w *fixture) tryOpen(ctx context.Context, c Client, observer bool) (*owner, error) {
	o := &owner{w: w, c: c}
	info := c.Backend().Info()
	cfg := driver.Config{
		TTL: w.h.TTL, Margin: info.Margin, Observer: observer,
		Logger: slog.New(slog.DiscardHandler),
		Renewed: func(sent driver.Instant, ttl, lag time.Duration) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.renewals = append(o.renewals, renewal{sent: sent, at: info.Clock.Now(), ttl: ttl, lag: lag})
		},
		Gone: func(err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.gone = append(o.gone, err)
		},
	}
	if observer {
		cfg.TTL = 0
	}
	s, err := c.Backend().Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o.Session = s
	w.t.Cleanup(func() {
		o.mu.Lock()
		closed := o.closed
		o.mu.Unlock()
		if !closed {
			c.Heal()
			assert.NoError(w.t, o.end(), "Session.Close")
		}
	})
	return o, nil
}

// end closes the session. It has a context of its own because it also runs when the
// case's has ended.
//
//nolint:contextcheck // see above
func (o *owner) end() error {
	ctx, stop := context.WithTimeout(context.Background(), o.w.bound())
	defer stop()
	return o.close(ctx)
}

// close closes the session, which the end of the case must not do again.
func (o *owner) close(ctx context.Context) error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	return o.Close(ctx)
}

// clock is the backend's.
func (o *owner) clock() driver.Clock { return o.c.Backend().Info().Clock }

// renewed returns the renewals so far.
func (o *owner) renewed() []renewal {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.renewals)
}

// newest returns when the renewal was sent that was sent last.
func (o *owner) newest() (sent driver.Instant) {
	for _, r := range o.renewed() {
		sent = max(sent, r.sent)
	}
	return sent
}

// losses is how often Gone was reported.
func (o *owner) losses() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.gone)
}

func (o *owner) join(name string) driver.Joined {
	o.w.t.Helper()
	return o.joinWith(driver.JoinRequest{Queue: name})
}

func (o *owner) joinWith(req driver.JoinRequest) driver.Joined {
	o.w.t.Helper()
	return o.joinAll(req)[0]
}

func (o *owner) joinAll(reqs ...driver.JoinRequest) []driver.Joined {
	o.w.t.Helper()
	all, err := o.Join(o.w.soon(), reqs...)
	require.NoError(o.w.t, err, "Join")
	require.Len(o.w.t, all, len(reqs))
	for i, j := range all {
		require.Equal(o.w.t, reqs[i].Queue, j.Entry.Queue, "the answers are in the order of the requests")
		require.NotEmpty(o.w.t, j.Entry.Key)
		require.Positive(o.w.t, j.Entry.Token, "the answer contains the token")
		require.Equal(o.w.t, all[0].Entry.Token, j.Entry.Token, "they have one token")
		require.Len(o.w.t, j.Ops, len(reqs[i].Ops), "a result for each Op")
		require.GreaterOrEqual(o.w.t, j.View.Count, 0, "Count is always set")
	}
	return all
}

func (o *owner) leave(all ...driver.Ref) {
	o.w.t.Helper()
	if len(all) > 0 {
		o.leaveWith(leaves(all...)...)
	}
}

func leaves(all ...driver.Ref) []driver.LeaveRequest {
	reqs := make([]driver.LeaveRequest, 0, len(all))
	for _, ref := range all {
		reqs = append(reqs, driver.LeaveRequest{Ref: ref})
	}
	return reqs
}

func (o *owner) leaveWith(reqs ...driver.LeaveRequest) []driver.Left {
	o.w.t.Helper()
	left, err := o.Leave(o.w.soon(), reqs...)
	require.NoError(o.w.t, err, "Leave")
	require.Len(o.w.t, left, len(reqs))
	return left
}

// once makes a call and reports whether one attempt has answered it: for certain if the call
// has sent one request. On a machine that stands still a request is sent again.
func (o *owner) once(call func()) bool {
	before := o.c.Requests()
	call()
	return o.w.h.Virtual || o.c.Requests()-before == 1
}

// went makes requests and requires how the entries went. What more than one attempt has
// answered may be Unclear.
func (o *owner) went(want []driver.Left, why string, reqs ...driver.LeaveRequest) {
	o.w.t.Helper()
	var left []driver.Left
	if o.once(func() { left = o.leaveWith(reqs...) }) {
		assert.Equal(o.w.t, want, left, why)
		return
	}
	for i := range left {
		assert.Contains(o.w.t, []driver.Left{want[i], driver.Unclear}, left[i], "entry %d: %s", i, why)
	}
}

func (o *owner) read(req driver.ReadRequest) driver.View {
	o.w.t.Helper()
	v, err := o.Read(o.w.soon(), req)
	require.NoError(o.w.t, err, "Read")
	for i := range v.Entries {
		require.Equal(o.w.t, req.Queue, v.Entries[i].Queue)
		if i > 0 {
			require.Less(o.w.t, v.Entries[i-1].Place, v.Entries[i].Place, "entries are in order of place")
		}
	}
	if v.Count >= 0 && v.Complete {
		require.Len(o.w.t, v.Entries, v.Count, "a complete answer has as many entries as it counts")
	}
	return v
}

// fresh makes the reads of the session not older than now: what other sessions have done
// need not be shown to this one before.
func (o *owner) fresh(name string) {
	o.w.t.Helper()
	o.read(driver.ReadRequest{Queue: name, Upto: 1, Nearest: 1, Fresh: true})
}

// list shows what a queue has now.
func (o *owner) list(name string) []driver.Entry {
	o.w.t.Helper()
	return o.whole(name, true)
}

// entries shows what a queue has, as a Read for waiters shows it.
func (o *owner) entries(name string) []driver.Entry {
	o.w.t.Helper()
	return o.whole(name, false)
}

// whole reads a whole queue with all that can be asked for.
func (o *owner) whole(name string, fresh bool) []driver.Entry {
	o.w.t.Helper()
	v := o.read(driver.ReadRequest{Queue: name, Marks: true, Detail: true, Fresh: fresh})
	require.True(o.w.t, v.Complete, "all of it was asked for")
	return v.Entries
}

// only shows what a queue has now that must have one entry.
func (o *owner) only(name string) driver.Entry {
	o.w.t.Helper()
	all := o.list(name)
	require.Len(o.w.t, all, 1)
	return all[0]
}

// sees reports whether a Read up to an entry shows it.
func (o *owner) sees(ref driver.Ref) bool {
	o.w.t.Helper()
	v := o.read(driver.ReadRequest{Queue: ref.Queue, Upto: ref.Place, Nearest: 1})
	return slices.Contains(refs(v.Entries), ref)
}

// meet waits until the session has been shown an entry of another. Only then may it
// watch it: its server may lag behind the one that made the entry.
func (o *owner) meet(ref driver.Ref) {
	o.w.t.Helper()
	o.w.eventually(func() bool { return o.sees(ref) }, "a Read shows an entry of another session")
}

func (o *owner) update(req driver.UpdateRequest) []driver.Result {
	o.w.t.Helper()
	results, err := o.Update(o.w.soon(), req)
	require.NoError(o.w.t, err, "Update")
	require.Len(o.w.t, results, len(req.Ops), "a result for each Op")
	return results
}

// mark adds marks to an entry, write changes its data, describe its detail.
func (o *owner) mark(ref driver.Ref, m driver.Marks) {
	o.w.t.Helper()
	o.update(driver.UpdateRequest{Queue: ref.Queue, Entry: ref, Marks: m})
}

func (o *owner) write(ref driver.Ref, data string) {
	o.w.t.Helper()
	o.update(driver.UpdateRequest{Queue: ref.Queue, Entry: ref, Data: []byte(data)})
}

func (o *owner) describe(ref driver.Ref, detail string) {
	o.w.t.Helper()
	o.update(driver.UpdateRequest{Queue: ref.Queue, Entry: ref, Detail: []byte(detail)})
}

// record reads a record of a queue; zero if there is none.
func (o *owner) record(name, record string) driver.Record {
	o.w.t.Helper()
	v := o.read(driver.ReadRequest{Queue: name, Upto: 1, Nearest: 1, Records: []string{record}})
	r, ok := v.Records[record]
	require.Equal(o.w.t, ok, r.Version > 0, "Version is above 0")
	return r
}

// value is what the record has, "" for none: the cases write no empty values.
func (o *owner) value(record string) string {
	o.w.t.Helper()
	return string(o.record(queue, record).Value)
}

// set writes a record of the queue whatever it is, "" deletes it.
func (o *owner) set(record, value string) {
	o.w.t.Helper()
	o.fresh(queue)
	was := o.record(queue, record)
	if value == "" && was.Version == 0 {
		return
	}
	o.update(driver.UpdateRequest{Queue: queue, Ops: []driver.Op{op(record, driver.At(was.Version), value)}})
}

// op is a required Op; a value of "" deletes.
func op(record string, cond driver.Cond, value string) driver.Op {
	o := driver.Op{Record: record, If: cond}
	if value != "" {
		o.Value = []byte(value)
	}
	return o
}

func bound(op driver.Op) driver.Op {
	op.Bound = true
	return op
}

func optional(op driver.Op) driver.Op {
	op.Optional = true
	return op
}

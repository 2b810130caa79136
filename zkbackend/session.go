package zkbackend

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// zkSession is one ZooKeeper session, with what it remembers of queues.
//
// Each method of the contract has a type for one call, in a file of its own, where its reader begins:
//
//	Join      join.go, require.go (before it is sent), resolve.go (when its answer is lost)
//	Leave     leave.go
//	Update    update.go
//	Read      read.go
//	Names     names.go
//	Watch     watch.go
//
// Under them are transaction.go (attempts at a change), ops.go and record.go (records), own.go (the
// session's own entries), folder.go, and layout.go, name.go and stored.go (paths, names and data).
// seal.go crosses all of them: it is how a release grants the next waiter without a read.
type zkSession struct {
	b    *backend
	cfg  driver.Config
	conn *conn.Session

	// seal is nil if entries cannot be protected. acl is the ACL of new nodes that are no entries, and
	// entryACL that of new entries. All three are set before Open returns, and never changed.
	seal     *seal
	acl      []zk.ACL
	entryACL []zk.ACL

	// own has the session's entries, exactly: what is not there and has this session's owner is debris.
	own     *registry
	folders folders

	// What the session remembers. Each may be lost at any time, and costs a read then.

	// used are folders in which the session has joined: they had no data before.
	used seen[string, bool]

	// records are those that were read or written.
	records knownRecords

	// leased are foreign entries, and whether they have a session, as far as the session may know.
	leased seen[string, bool]

	// nodes are entries whose names are not unique, with the czxid that the session has read last.
	nodes seen[string, int64]
}

var _ driver.Session = (*zkSession)(nil)

// ID implements driver.Session.
func (s *zkSession) ID() string { return s.conn.ID() }

// Since implements driver.Session: ZooKeeper ends no life, see package driver.
func (s *zkSession) Since() int64 { return 0 }

// Renew implements driver.Session.
func (s *zkSession) Renew() { s.conn.Renew() }

// Abandon implements driver.Session.
func (s *zkSession) Abandon() { s.conn.Abandon() }

// Close implements driver.Session.
func (s *zkSession) Close(ctx context.Context) error { return s.conn.Close(ctx) }

// Join implements driver.Session. An error while the join is unsettled leaves the rest to Settle.
func (s *zkSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	j, err := newJoin(s, reqs)
	if err != nil {
		return named[[]driver.Joined](nil, err, "join", reqs[0].Queue)
	}
	joined, err := j.run(ctx)
	joined, err = named(joined, err, "join", reqs[0].Queue)
	if j.state == unsettled {
		err = &driver.PendingError{Err: err, Settle: j.settle}
	}
	return joined, err
}

// Leave implements driver.Session.
func (s *zkSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	left, err := newLeave(s, reqs).do(ctx)
	return named(left, err, "leave", reqs[0].Ref.Queue)
}

// Read implements driver.Session.
func (s *zkSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := newReader(s, req.Queue).read(ctx, req)
	return named(v, err, "read", req.Queue)
}

// Update implements driver.Session.
func (s *zkSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	results, err := newUpdate(s, req).do(ctx)
	return named(results, err, "update", req.Queue)
}

// Names implements driver.Session.
func (s *zkSession) Names(ctx context.Context, prefix string) ([]string, error) {
	names, err := (&walk{s: s, prefix: prefix}).run(ctx)
	return named(names, err, "names with prefix", prefix)
}

// named adds to an error which request it is of. With an error there is no value.
func named[T any](v T, err error, what, of string) (T, error) {
	if err != nil {
		var none T
		return none, fmt.Errorf("zookeeper: %s %q: %w", what, of, err)
	}
	return v, nil
}

// Watch implements driver.Session.
func (s *zkSession) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	return startWatch(s, t, f)
}

// seen is what a session remembers of what it has read or written. It may be lost at any time:
// when there is too much, all of it is forgotten.
type seen[K comparable, V any] struct {
	mu sync.Mutex

	// all has at most maxSeen elements. It is nil until the first put.
	all map[K]V
}

// maxSeen bounds the memory of a session that meets ever new names. A session that uses more names at
// the same time reads some of them again.
const maxSeen = 4096

func (s *seen[K, V]) get(k K) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.all[k]
	return v, ok
}

// put remembers v unless better reports that what is remembered is better.
func (s *seen[K, V]) put(k K, v V, better func(old V) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= maxSeen {
		s.all = make(map[K]V)
	}
	old, ok := s.all[k]
	if !ok || better == nil || !better(old) {
		s.all[k] = v
	}
}

func (s *seen[K, V]) forget(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, k)
}

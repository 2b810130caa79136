package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/journal"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// zkStore is a ZooKeeper server in a process of its own, seen with a plain
// connection. Its events come from its transaction log: see package journal.
type zkStore struct {
	ensemble *zktest.Ensemble
	conn     *zk.Conn
	log      *testserver.Dir
	line     string // the folder of the line's nodes

	mu         sync.Mutex
	containers map[string]bool // the paths of all that the log has
}

// round is how often the server removes containers that have become empty, the
// folders of locks that nobody uses. Its own is a minute, for which nobody
// would wait here to see it.
const round = 100 * time.Millisecond

// neverUsed is the property of a server, since ZooKeeper 3.8, for how long it keeps a
// container that has never had a child. By default that is for ever. A worker
// that leaves when it has just made a folder leaves such a one.
const neverUsed = "znode.container.maxNeverUsedIntervalMs"

func openZooKeeper(ctx context.Context, lock string) (_ store, err error) {
	s := &zkStore{line: zkbackend.DefaultRoot + "/" + lock, containers: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start ZooKeeper: %w", err), s.close())
		}
	}()
	if s.log, err = testserver.MakeDir("fairlock-demo", true); err != nil {
		return nil, err
	}
	s.ensemble, err = zktest.Start(ctx, &zktest.Options{
		ContainerCheck: round,
		Config:         map[string]string{"dataLogDir": s.log.Path()},
		Properties:     map[string]string{neverUsed: "1000"},
	})
	if err != nil {
		return nil, err
	}
	if s.conn, err = s.ensemble.NewClient(nil); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *zkStore) close() error {
	var errs []error
	if s.conn != nil {
		s.conn.Close()
	}
	if s.ensemble != nil {
		errs = append(errs, s.ensemble.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Remove())
	}
	return errors.Join(errs...)
}

func (s *zkStore) server() string { return s.ensemble.Endpoints()[0] }

// follow begins with the first transaction, so nothing is missed.
func (s *zkStore) follow(ctx context.Context, l listener) (run func(), err error) {
	return func() {
		live := map[string]int64{}
		err := journal.Follow(ctx, s.log.Path(), func(t journal.Txn) { s.tell(l, live, t) })
		if err != nil {
			l.fail(err)
		}
	}, nil
}

func (s *zkStore) tell(l listener, live map[string]int64, t journal.Txn) {
	for _, op := range t.Ops {
		s.note(op)
		switch {
		case op.Path == endNode && op.Created:
			l.marked()
		case !strings.HasPrefix(op.Path, s.line+"/"):
		case op.Created:
			meta, _ := door.DecodeMeta(op.Data)
			live[op.Path] = t.Zxid
			l.put(place{token: t.Zxid, meta: meta})
		default:
			l.gone(live[op.Path], t.Zxid)
			delete(live, op.Path)
		}
	}
}

// note keeps in mind which nodes are containers, also when they are deleted: below
// may have seen one just before.
func (s *zkStore) note(op journal.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case op.Container:
		s.containers[op.Path] = true
	case op.Created:
		delete(s.containers, op.Path)
	}
}

// endNode is the end mark. It is not in the line's folder, which is removed when
// nobody is in it.
const endNode = "/end"

func (s *zkStore) mark(ctx context.Context) error {
	_, err := within(ctx, func() (string, error) {
		path, err := s.conn.Create(endNode, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		if err != nil {
			return "", err
		}
		return path, s.conn.Delete(path, -1)
	})
	if err != nil {
		return fmt.Errorf("mark the end of the queue: %w", err)
	}
	return nil
}

// first is the czxid of the lowest number in the line. A Sync before the read
// makes it linearizable.
func (s *zkStore) first(ctx context.Context) (int64, error) {
	token, err := within(ctx, func() (int64, error) { return firstIn(s.conn, s.line) })
	if err != nil {
		return 0, fmt.Errorf("read the first entry of the queue: %w", err)
	}
	return token, nil
}

// reader is what of a connection it takes to find the first in a line.
type reader interface {
	Sync(path string) (string, error)
	Children(path string) ([]string, *zk.Stat, error)
	Exists(path string) (bool, *zk.Stat, error)
}

// firstIn returns the token of the first node in a line, 0 if there is none. The
// connection may be closed at any moment: then firstIn returns an error.
func firstIn(conn reader, line string) (int64, error) {
	if _, err := conn.Sync("/"); err != nil {
		return 0, err
	}
	for {
		names, _, err := conn.Children(line)
		if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		there, stat, err := conn.Exists(line + "/" + slices.MinFunc(names, bySequence))
		if err != nil {
			return 0, err
		}
		if there {
			return stat.Czxid, nil
		} // else it left in between
	}
}

// bySequence compares nodes by their numbers, the ten digits at the end.
func bySequence(a, b string) int {
	return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):])
}

// left waits while there are only folders that the server will remove: it does so
// in rounds of its own, from the bottom up, and late if it is busy. Whatever else
// is there was left behind.
func (s *zkStore) left(ctx context.Context) (nodes []string, sessions int, err error) {
	for {
		var found census
		if found, err = within(ctx, func() (census, error) { return s.below("/") }); err != nil {
			break
		}
		if nodes = found.stay; len(nodes) > 0 || len(found.pass) == 0 {
			break
		}
		if err = rest(ctx, round); err != nil {
			err = fmt.Errorf("the server has not removed %s: %w", strings.Join(found.pass, " "), err)
			break
		}
	}
	if err == nil {
		sessions, err = s.sessions(ctx)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("count what is left: %w", err)
	}
	return nodes, sessions, nil
}

// census has the paths of nodes: those that the server will remove by itself, and
// others.
type census struct{ pass, stay []string }

// below finds the nodes below one. ZooKeeper's own do not count. The server removes
// a container that has no children; a client cannot see what is one.
func (s *zkStore) below(path string) (census, error) {
	var sum census
	names, _, err := s.conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return sum, nil
	}
	if err != nil {
		return sum, err
	}
	for _, name := range names {
		child := strings.TrimSuffix(path, "/") + "/" + name
		if child == "/zookeeper" {
			continue
		}
		below, err := s.below(child)
		if err != nil {
			return sum, err
		}
		if s.isContainer(child) && len(below.stay) == 0 {
			sum.pass = append(sum.pass, child)
		} else {
			sum.stay = append(sum.stay, child)
		}
		sum.pass, sum.stay = append(sum.pass, below.pass...), append(sum.stay, below.stay...)
	}
	return sum, nil
}

// isContainer reports whether the log has a node as a container.
func (s *zkStore) isContainer(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers[path]
}

// sessions asks the server how many there are beside our own.
func (s *zkStore) sessions(ctx context.Context) (int, error) {
	const figure = "zk_global_sessions"
	text, err := s.ensemble.Member(0).Command(ctx, "mntr")
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(l), "\t"); key == figure {
			n, err := strconv.Atoi(value)
			return n - 1, err
		}
	}
	return 0, fmt.Errorf("mntr does not tell %s", figure)
}

// within calls f, which has no context, and does not wait for it for longer than
// ctx lasts. It ends at the latest when the connection is closed.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		v, err := f()
		answered <- answer{v, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

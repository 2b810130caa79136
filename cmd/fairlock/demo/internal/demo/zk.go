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

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/journal"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// zkService is a ZooKeeper server in a process of its own, read with a plain connection.
// Its events come from its transaction log: see package journal.
type zkService struct {
	ensemble *zktest.Ensemble
	conn     *zk.Conn
	log      *testserver.Dir
	queue    string // the path of the queue's folder

	mu         sync.Mutex
	containers map[string]bool // the paths of all containers in the log
}

// containerCheck is how often the server removes containers that have become empty, such
// as the folders of unused queues. The default, a minute, is too long for a demonstration.
const containerCheck = 100 * time.Millisecond

// maxNeverUsed is a property of servers since ZooKeeper 3.8: how long they keep a container
// that has never had a child, in milliseconds. The default is for ever. A worker that leaves
// when it has just created a folder leaves such a container.
const maxNeverUsed = "znode.container.maxNeverUsedIntervalMs"

func openZooKeeper(ctx context.Context, lock string) (_ service, err error) {
	s := &zkService{queue: zkbackend.DefaultRoot + "/" + lock, containers: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start ZooKeeper: %w", err), s.close())
		}
	}()
	s.log, err = testserver.MakeDir("fairlock-demo", true)
	if err != nil {
		return nil, err
	}
	s.ensemble, err = zktest.Start(ctx, &zktest.Options{
		ContainerCheck: containerCheck,
		Config:         map[string]string{"dataLogDir": s.log.Path()},
		Properties:     map[string]string{maxNeverUsed: "1000"},
	})
	if err != nil {
		return nil, err
	}
	s.conn, err = s.ensemble.NewClient(nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *zkService) close() error {
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

func (s *zkService) address() string { return s.ensemble.Endpoints()[0] }

// follow begins with the first transaction, so it misses none.
func (s *zkService) follow(ctx context.Context, l listener) (run func(), err error) {
	return func() {
		live := map[string]int64{}
		err := journal.Follow(ctx, s.log.Path(), func(t journal.Txn) { s.report(l, live, t) })
		if err != nil {
			l.fail(err)
		}
	}, nil
}

func (s *zkService) report(l listener, live map[string]int64, t journal.Txn) {
	for _, op := range t.Ops {
		s.noteContainer(op)
		switch {
		case op.Path == endMarkPath && op.Created:
			l.endMarked()
		case !strings.HasPrefix(op.Path, s.queue+"/"):
		case op.Created:
			meta, _ := owner.DecodeMeta(op.Data)
			live[op.Path] = t.Zxid
			l.created(entry{token: t.Zxid, meta: meta})
		default:
			l.deleted(live[op.Path], t.Zxid)
			delete(live, op.Path)
		}
	}
}

// noteContainer remembers which nodes are containers. It remembers deleted ones too,
// because the method below may have listed them before they were deleted.
func (s *zkService) noteContainer(op journal.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case op.Container:
		s.containers[op.Path] = true
	case op.Created:
		delete(s.containers, op.Path)
	}
}

// endMarkPath is the end mark. It is outside the queue's folder, which the server removes
// when the queue is empty.
const endMarkPath = "/end"

func (s *zkService) markEnd(ctx context.Context) error {
	_, err := within(ctx, func() (string, error) {
		path, err := s.conn.Create(endMarkPath, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
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

// first returns the czxid of the first entry. The Sync before the read makes the read
// linearizable.
func (s *zkService) first(ctx context.Context) (int64, error) {
	token, err := within(ctx, func() (int64, error) { return firstIn(s.conn, s.queue) })
	if err != nil {
		return 0, fmt.Errorf("read the first entry of the queue: %w", err)
	}
	return token, nil
}

// reader is the part of a connection that firstIn needs.
type reader interface {
	Sync(path string) (string, error)
	Children(path string) ([]string, *zk.Stat, error)
	Exists(path string) (bool, *zk.Stat, error)
}

// firstIn returns the token of the first node in a queue, 0 if there is none. It returns an
// error if the connection is closed meanwhile.
func firstIn(conn reader, queue string) (int64, error) {
	if _, err := conn.Sync("/"); err != nil {
		return 0, err
	}
	for {
		names, _, err := conn.Children(queue)
		if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		there, stat, err := conn.Exists(queue + "/" + slices.MinFunc(names, bySequence))
		if err != nil {
			return 0, err
		}
		if there {
			return stat.Czxid, nil
		} // else the node was deleted in between
	}
}

// bySequence compares nodes by their sequence numbers, the ten digits at the end.
func bySequence(a, b string) int {
	return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):])
}

// leftovers waits while the only nodes are containers that the server will remove. The
// server does so in rounds, from the bottom up, and late if it is busy. All other nodes
// were left behind.
func (s *zkService) leftovers(ctx context.Context) (nodes []string, sessions int, err error) {
	for {
		var found nodeSet
		found, err = within(ctx, func() (nodeSet, error) { return s.below("/") })
		if err != nil {
			break
		}
		nodes = found.left
		if len(nodes) > 0 || len(found.removable) == 0 {
			break
		}
		err = sleep(ctx, containerCheck)
		if err != nil {
			err = fmt.Errorf("the server has not removed %s: %w", strings.Join(found.removable, " "), err)
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

// nodeSet has the paths of nodes: of those that the server will remove, and of others.
type nodeSet struct{ removable, left []string }

// below returns the nodes below path, without those of ZooKeeper itself. The server removes
// a container that has no children. Only the log shows which nodes are containers.
func (s *zkService) below(path string) (nodeSet, error) {
	var sum nodeSet
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
		if s.isContainer(child) && len(below.left) == 0 {
			sum.removable = append(sum.removable, child)
		} else {
			sum.left = append(sum.left, child)
		}
		sum.removable, sum.left = append(sum.removable, below.removable...), append(sum.left, below.left...)
	}
	return sum, nil
}

// isContainer reports whether a node is a container in the log.
func (s *zkService) isContainer(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers[path]
}

// sessions returns the number of sessions at the server, without our own.
func (s *zkService) sessions(ctx context.Context) (int, error) {
	const figure = "zk_global_sessions"
	text, err := s.ensemble.Member(0).Command(ctx, "mntr")
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), "\t")
		if key == figure {
			n, err := strconv.Atoi(value)
			return n - 1, err
		}
	}
	return 0, fmt.Errorf("mntr does not report %s", figure)
}

// within calls f, which has no context, and returns early when ctx ends. The call of f then
// ends at the latest when the connection is closed.
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

package zktest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ChangeKind is what was done to a node.
type ChangeKind string

// The kinds of changes.
const (
	Created ChangeKind = "created"
	Written ChangeKind = "written"
	Deleted ChangeKind = "deleted" // by a request, with its session, or as an empty container
)

// Change is one change of a node. A transaction may contain several.
type Change struct {
	Zxid  int64 // of the transaction; for a created node also its czxid
	Kind  ChangeKind
	Path  string
	Data  []byte // of a node that was created or written
	Owner int64  // the session of a created ephemeral node; 0 for other nodes

	// Session is the session that requested it; the end of a session counts as its
	// request. 0 for an empty container that a server removed.
	Session int64

	// At is when the leader began the transaction, in milliseconds of its clock.
	At time.Time
}

// Journal reads the logs of an ensemble's members, each time the transactions since the
// last read. It is independent of clients and watches.
type Journal struct {
	e     *Ensemble
	below string // prefix of the nodes' paths

	mu        sync.Mutex
	seen      int64            // the last transaction that was returned
	ephemeral map[string]int64 // the owners of the nodes that exist
}

// Journal returns a journal of the nodes below a path. It begins with the first
// transaction of the ensemble.
func (e *Ensemble) Journal(below string) *Journal {
	return &Journal{e: e, below: strings.TrimSuffix(below, "/") + "/", ephemeral: map[string]int64{}}
}

// Next returns all changes since the last call, in the order of their transactions: all
// that any client has seen before this call. It is safe for concurrent use; each change
// is returned to one caller. Changes of ACLs are left out.
//
// Next blocks until all members serve, because the log of one that is cut off may
// contain transactions that the ensemble drops. It fails when ctx ends, with the
// missing member in the error; the next call returns the changes then.
func (j *Journal) Next(ctx context.Context) ([]Change, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	timeout := answerWithin
	for {
		done, err := j.next(ctx, timeout)
		if err == nil {
			return done, nil
		}
		timeout = longer(timeout, err)
		// A server answers when a majority has written; the other members may be
		// behind.
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("zktest: changes below %q: %w: %w", j.below, ctx.Err(), err)
		case <-time.After(pollEvery):
		}
	}
}

// next is one attempt at Next.
func (j *Journal) next(ctx context.Context, timeout time.Duration) ([]Change, error) {
	answers := make([]status, len(j.e.members))
	err := each(j.e.members, func(m *Member) (err error) {
		answers[m.index], err = m.status(ctx, timeout)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := reading{below: j.below, after: j.seen, done: map[int64][]Change{}}
	for _, a := range answers {
		r.newest = max(r.newest, a.zxid) // a member answers a client after it has applied the transaction
	}
	for _, m := range j.e.members {
		if err := r.read(m.data()); err != nil {
			return nil, err
		}
		if r.missing() == 0 {
			j.seen = max(j.seen, r.newest)
			return j.inOrder(r.done), nil
		}
	}
	return nil, fmt.Errorf("transaction %#x is not in the logs", r.missing())
}

// inOrder returns the changes in the order of their transactions. It replaces the end
// of a session by the deletions of the session's ephemeral nodes.
func (j *Journal) inOrder(done map[int64][]Change) []Change {
	var all []Change
	for _, zxid := range slices.Sorted(maps.Keys(done)) {
		for _, c := range done[zxid] {
			switch {
			case c.Kind == ended:
				all = append(all, j.ends(c)...)
				continue
			case c.Kind == Deleted:
				delete(j.ephemeral, c.Path)
			case c.Owner != 0:
				j.ephemeral[c.Path] = c.Owner
			}
			all = append(all, c)
		}
	}
	return all
}

// ends returns the deletions that the end of a session causes.
func (j *Journal) ends(c Change) (all []Change) {
	c.Kind = Deleted
	for _, c.Path = range slices.Sorted(maps.Keys(j.ephemeral)) {
		if j.ephemeral[c.Path] == c.Session {
			delete(j.ephemeral, c.Path)
			all = append(all, c)
		}
	}
	return all
}

// reading collects the transactions that logs contain.
type reading struct {
	below  string             // prefix of the nodes' paths
	after  int64              // transactions to leave out
	newest int64              // the last transaction to read
	done   map[int64][]Change // by transaction
}

// read adds the transactions in the logs of a member.
func (r *reading) read(data string) error {
	logs, err := logsOf(data)
	if err != nil {
		return err
	}
	for i, log := range logs {
		if i+1 < len(logs) && logs[i+1].first <= r.after+1 {
			continue
		}
		if err := r.readLog(log.name); err != nil {
			return fmt.Errorf("%s: %w", log.name, err)
		}
	}
	return nil
}

func (r *reading) readLog(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return eachRecord(file, func(txn []byte) error {
		head, rest := headOf(txn)
		if head.zxid > r.newest {
			return io.EOF
		}
		if _, known := r.done[head.zxid]; known || head.zxid <= r.after {
			return nil
		}
		all, err := decode(head, rest)
		if err != nil {
			return fmt.Errorf("transaction %#x: %w", head.zxid, err)
		}
		r.done[head.zxid] = slices.DeleteFunc(all, func(c Change) bool {
			return c.Kind != ended && !strings.HasPrefix(c.Path, r.below)
		})
		return nil
	})
}

// log is one log file of a member.
type log struct {
	name  string
	first int64 // its first transaction, if it has any
}

// logsOf returns the logs of a member, in order.
func logsOf(data string) (all []log, err error) {
	files, err := filepath.Glob(filepath.Join(data, "log.*"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if first, err := strconv.ParseUint(strings.TrimPrefix(filepath.Ext(name), "."), 16, 64); err == nil {
			all = append(all, log{name, int64(first)})
		}
	}
	slices.SortFunc(all, func(a, b log) int { return cmp.Compare(a.first, b.first) })
	return all, nil
}

// missing returns a transaction that must exist and has not been read, or 0 if there is
// none. The upper half of a number is the leader's epoch. The first transaction of an
// epoch is its number 1, because number 0 is the epoch itself.
func (r *reading) missing() int64 {
	last := map[int64]int64{r.newest >> 32: r.newest}
	for zxid := range r.done {
		last[zxid>>32] = max(last[zxid>>32], zxid)
	}
	for epoch, to := range last {
		for zxid := max(epoch<<32, r.after) + 1; zxid <= to; zxid++ {
			if _, known := r.done[zxid]; !known {
				return zxid
			}
		}
	}
	return 0
}

package zktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ChangeKind says what was done to a node.
type ChangeKind string

// The kinds of changes.
const (
	Created ChangeKind = "created"
	Written ChangeKind = "written"
	Deleted ChangeKind = "deleted" // by a request, with its session, or as an empty container
)

// Change is something that a transaction did to a node. A transaction may do
// several things.
type Change struct {
	Zxid  int64 // of the transaction: of a node that was created its czxid
	Kind  ChangeKind
	Path  string
	Data  []byte // of a node that was created or written
	Owner int64  // the session of an ephemeral node that was created; 0 if it is none

	// Session asked for it: its own end, too. A container that was empty was
	// deleted by none, 0.
	Session int64
}

// Changes returns what has been done to the nodes below a path since the ensemble
// began, in the order in which it was done: all that any client has seen done
// before the call. It takes it from the logs of the members that serve, which keep
// no watch and ask no server, so that it is a witness against both. ACLs and quotas
// are not told.
//
// It fails if there is a gap in the logs of all of them, and when ctx ends. All
// members must have found together after a fault: one that has not may have
// transactions in its log that never were.
func (e *Ensemble) Changes(ctx context.Context, below string) ([]Change, error) {
	for {
		done, err := e.changes(ctx, below)
		if err == nil {
			return done, nil
		}
		// A server answers when a majority has written, which need not be all.
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("zktest: changes below %q: %w: %w", below, ctx.Err(), err)
		case <-time.After(pollEvery):
		}
	}
}

// changes is one attempt at Changes.
func (e *Ensemble) changes(ctx context.Context, below string) ([]Change, error) {
	answers := make([]status, len(e.members))
	silent := each(e.members, func(m *Member) (err error) {
		answers[m.index], err = m.status(ctx, answerWithin)
		return err
	})
	if leading(answers) < 0 {
		return nil, errors.Join(silent, errors.New("no member leads a majority"))
	}
	h := history{below: strings.TrimSuffix(below, "/") + "/", done: map[int64][]Change{}}
	for _, a := range answers {
		h.newest = max(h.newest, a.zxid) // a member answers its clients when it has done that itself
	}
	for i, m := range e.members {
		if answers[i].mode == "" {
			continue
		}
		if err := h.read(m.data()); err != nil {
			return nil, err
		}
		if h.missing() == 0 {
			return h.inOrder(), nil
		}
	}
	return nil, fmt.Errorf("transaction %#x is not in the logs", h.missing())
}

// history is what logs tell.
type history struct {
	below  string // nodes whose path begins so
	newest int64  // transaction to look at
	done   map[int64][]Change
}

// read adds what the logs of a member tell.
func (h *history) read(data string) error {
	logs, err := filepath.Glob(filepath.Join(data, "log.*"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		if _, err := strconv.ParseUint(strings.TrimPrefix(filepath.Ext(log), "."), 16, 64); err != nil {
			continue
		}
		if err := h.readLog(log); err != nil {
			return fmt.Errorf("%s: %w", log, err)
		}
	}
	return nil
}

func (h *history) readLog(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return eachRecord(file, func(txn []byte) error {
		head, rest := headOf(txn)
		if head.zxid > h.newest {
			return io.EOF
		}
		if _, known := h.done[head.zxid]; known {
			return nil
		}
		all, err := decode(head, rest)
		if err != nil {
			return fmt.Errorf("transaction %#x: %w", head.zxid, err)
		}
		h.done[head.zxid] = slices.DeleteFunc(all, func(c Change) bool {
			return c.Kind != ended && !strings.HasPrefix(c.Path, h.below)
		})
		return nil
	})
}

// missing is a transaction that must have been and is not known; 0 if there is
// none. The upper half of a number is the leader's epoch; the first transaction of
// an epoch is its number 1, for number 0 is the epoch itself.
func (h *history) missing() int64 {
	last := map[int64]int64{h.newest >> 32: h.newest}
	for zxid := range h.done {
		last[zxid>>32] = max(last[zxid>>32], zxid)
	}
	for epoch, to := range last {
		for zxid := epoch<<32 + 1; zxid <= to; zxid++ {
			if _, known := h.done[zxid]; !known {
				return zxid
			}
		}
	}
	return 0
}

// inOrder puts everything in its order, and has ephemeral nodes deleted where their
// sessions ended.
func (h *history) inOrder() []Change {
	var all []Change
	ephemeral := map[string]int64{} // owners of those that there are
	for _, zxid := range slices.Sorted(maps.Keys(h.done)) {
		for _, c := range h.done[zxid] {
			switch {
			case c.Kind == ended:
				for _, path := range slices.Sorted(maps.Keys(ephemeral)) {
					if ephemeral[path] == c.Session {
						delete(ephemeral, path)
						all = append(all, Change{Zxid: zxid, Kind: Deleted, Path: path, Session: c.Session})
					}
				}
				continue
			case c.Kind == Deleted:
				delete(ephemeral, c.Path)
			case c.Owner != 0:
				ephemeral[c.Path] = c.Owner
			}
			all = append(all, c)
		}
	}
	return all
}

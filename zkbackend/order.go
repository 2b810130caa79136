package zkbackend

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/go-zookeeper/zk"
)

// order is the order in which two folders are read on one connection. The
// requests of several goroutines leave in any order, so it is seen where they
// leave. Others may read the same folders meanwhile, and then it is not known
// which request was whose.
type order struct {
	before, after string // the folders

	// Guarded by tap.mu.
	n     int // requests for either
	last  int // the last for before ...
	first int // ... and the first for after; 0: none

	seen chan struct{} // closed when one for before has left
}

// follow begins to look at what leaves.
func (t *tap) follow(before, after string) *order {
	o := &order{before: before, after: after, seen: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.orders = append(t.orders, o)
	return o
}

// kept says that all that was read of before was asked for before all that was
// read of after, and looks no more.
func (t *tap) kept(o *order) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.orders {
		if t.orders[i] == o {
			t.orders = append(t.orders[:i], t.orders[i+1:]...)
			break
		}
	}
	return o.first > 0 && o.last > 0 && o.last < o.first
}

// leaves takes in a request that is about to leave. The caller holds t.mu.
func (t *tap) leaves(packet []byte, op int32) {
	if op != opGetChildren2 || len(t.orders) == 0 || len(packet) < 16 {
		return
	}
	n := int64(binary.BigEndian.Uint32(packet[12:]))
	if int64(len(packet)) < 16+n {
		return
	}
	path := string(packet[16 : 16+n])
	for _, o := range t.orders {
		switch path {
		case o.before:
			o.n++
			if o.last == 0 {
				close(o.seen)
			}
			o.last = o.n
		case o.after:
			o.n++
			if o.first == 0 {
				o.first = o.n
			}
		}
	}
}

// folders are a line's, as they were read.
type folders struct {
	line, limit, holders children
}

// readTogether reads a line's folder, and then its limit and its holders, in one
// round trip: a server answers the requests of a connection in the order in which
// they were sent. False means that this has not come about, and says nothing.
func (s *sess) readTogether(ctx context.Context, line string) (f folders, ok bool) {
	l, err := s.link(ctx)
	if err != nil {
		return f, false
	}
	lay := s.b.lay
	o := l.tap.follow(lay.dir(line), lay.limit(line))
	read := func(to *children, dir string) <-chan error {
		done := make(chan error, 1)
		go func() {
			c, err := once(ctx, s, l, readChildren(dir))
			*to = c
			done <- err
		}()
		return done
	}
	first := read(&f.line, o.before)
	select {
	case <-o.seen:
	case <-l.down:
	case <-ctx.Done():
	}
	second, third := read(&f.limit, o.after), read(&f.holders, lay.holders(line))
	err = errors.Join(<-first, <-second, <-third)
	return f, l.tap.kept(o) && err == nil
}

// readChildren lists a folder; one that does not exist has no children.
func readChildren(dir string) func(*zk.Conn) (children, error) {
	return func(c *zk.Conn) (children, error) {
		names, stat, err := c.Children(orRoot(dir))
		if errors.Is(err, zk.ErrNoNode) {
			return children{}, nil
		}
		if err != nil {
			return children{}, err //nolint:wrapcheck // the answer to a request
		}
		return children{names: names, stat: *stat}, nil
	}
}

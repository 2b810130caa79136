package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// List implements driver.Backend.
func (b *backend) List(ctx context.Context, name string, most int) ([]driver.Entry, error) {
	dir := b.lay.dir(name)
	var line []driver.Entry
	err := b.visit(ctx, func(s *sess) error {
		for {
			r, err := s.list(ctx, dir)
			if err != nil {
				return err
			}
			nodes := r.nodes
			if most > 0 {
				nodes = nodes[:min(most, len(nodes))]
			}
			line, err = s.describeAll(ctx, name, nodes)
			// Of a whole line some may go at any time. Who asks for the first wants
			// to know who that is.
			if err != nil || most == 0 || !slices.ContainsFunc(line, undescribed) {
				return err
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("zookeeper: list %q: %w", name, err)
	}
	return line, nil
}

// describeAll reads entries, and at the same time the ledger for the first, and
// since when they hold.
func (s *sess) describeAll(ctx context.Context, name string, nodes []node) ([]driver.Entry, error) {
	if len(nodes) == 0 {
		return []driver.Entry{}, nil
	}
	dir := s.b.lay.dir(name)
	line := make([]driver.Entry, len(nodes))
	past := driver.PastUnknown
	var granted map[string]time.Time
	err := each(ctx, make([]struct{}, len(nodes)+2), func(ctx context.Context, i int) (err error) {
		switch i -= 2; i {
		case -2:
			past, err = s.pastIn(ctx, name, nodes[0])
		case -1:
			granted, err = s.grantsIn(ctx, name)
		default:
			line[i], err = s.describe(ctx, nodes[i].entry(name, dir))
		}
		return err
	})
	line[0].Past = past
	for i, n := range nodes {
		line[i].Granted = granted[n.guid]
	}
	return line, err
}

// undescribed says that an entry had gone before it was read.
func undescribed(e driver.Entry) bool { return e.Token == 0 }

// describe adds what the entry's node says of it. One that has gone meanwhile
// keeps what its name says: it was in the line when that was read.
func (s *sess) describe(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	bare := e
	data, stat, err := s.content(ctx, e.Key)
	if errors.Is(err, zk.ErrNoAuth) { // not its value, then
		data = nil
		if stat, err = s.exists(ctx, e.Key); err == nil && stat == nil {
			err = zk.ErrNoNode
		}
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return e, nil
	case err != nil:
		return e, translate(err, "READ", e.Key)
	}
	e.Token = stat.Czxid
	if stat.EphemeralOwner == 0 {
		e.Unleased = true
	} else {
		e.Session = sessionName(stat.EphemeralOwner)
	}
	_, name := split(e.Key)
	n, _ := parseNode(name)
	s.sight(e.Line, n, stat.EphemeralOwner)
	if e.Foreign || n.valued {
		e.Value = append([]byte{}, data...)
	}
	switch {
	case n.valued:
		data, _, err = s.content(ctx, s.b.lay.metas(e.Line)+"/"+n.guid)
		if errors.Is(err, zk.ErrNoNode) { // then the entry has probably gone too, between the two reads
			if stat, err = s.exists(ctx, e.Key); err == nil && stat == nil {
				return bare, nil
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNoAuth) {
			return e, translate(err, "READ", s.b.lay.metas(e.Line))
		}
		e.Meta, _ = driver.DecodeMeta(data)
	case !e.Foreign:
		e.Meta, _ = driver.DecodeMeta(data)
		a := readAddition(data)
		e.Admitted = a.Admitted
		if a.Token != 0 {
			e.Token = a.Token
		}
	}
	return e, nil
}

// pastIn is how the hold before that of the first in line ended, if the ledger
// has his name.
func (s *sess) pastIn(ctx context.Context, line string, n node) (driver.Past, error) {
	l, err := s.readLedger(ctx, line)
	if errors.Is(err, driver.ErrDenied) {
		err = nil // to know it, one would have to be somebody else
	}
	if l.guid != n.guid {
		l.past = driver.PastUnknown
	}
	return l.past, err
}

// visit calls f with a session to read through, and again if that one ends. What
// f reads is not older than the call: what somebody else's server has
// acknowledged by then is seen.
func (b *backend) visit(ctx context.Context, f func(*sess) error) error {
	for {
		s, err := b.guest(ctx)
		if err != nil {
			return err
		}
		if err = s.catchUp(ctx); err == nil {
			err = f(s)
		}
		if !errors.Is(err, driver.ErrSessionOver) || ctx.Err() != nil {
			return err
		}
	}
}

// catchUp waits until the session's server knows all that was done before the
// call. It stays so if the session changes servers: see handshakeRequest.
func (s *sess) catchUp(ctx context.Context) error {
	root := orRoot(s.b.lay.root)
	_, err := ask(ctx, s, func(c *zk.Conn) (string, error) { return c.Sync(root) })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return translate(err, "READ", root)
	}
	return nil
}

// Names implements driver.Backend. It walks through the folders below the root,
// except where no name can begin with prefix. Folders that it may not read are
// left out, except for the root. With Root "/" it walks through the trees of other
// applications too.
func (b *backend) Names(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	err := b.visit(ctx, func(s *sess) error {
		names = nil
		return s.walk(ctx, prefix, &names)
	})
	if err != nil {
		return nil, fmt.Errorf("zookeeper: names with prefix %q: %w", prefix, err)
	}
	slices.Sort(names)
	return names, nil
}

// walk goes through the folders level by level.
func (s *sess) walk(ctx context.Context, prefix string, names *[]string) error {
	var mu sync.Mutex
	level := []string{s.b.lay.root}
	for len(level) > 0 {
		var below []string
		err := each(ctx, level, func(ctx context.Context, i int) error {
			dir := level[i]
			c, err := s.children(ctx, dir)
			if errors.Is(err, zk.ErrNoAuth) && dir != s.b.lay.root {
				return nil
			}
			if err != nil {
				return translate(err, "READ", orRoot(dir))
			}
			name, ok := s.b.lay.name(dir)
			entries := 0
			mu.Lock()
			defer mu.Unlock()
			for _, child := range c.names {
				if _, entry := parseNode(child); entry {
					entries++
				} else if s.worth(dir, child, prefix) {
					below = append(below, dir+"/"+child)
				}
			}
			if ok && entries > 0 && strings.HasPrefix(name, prefix) {
				*names = append(*names, name)
			}
			return nil
		})
		if err != nil {
			return err
		}
		level = below
	}
	return nil
}

// worth says whether a folder, or one below it, can have a name that begins with
// prefix.
func (s *sess) worth(dir, child, prefix string) bool {
	if dir == "" && child == "zookeeper" {
		return false
	}
	name, ok := s.b.lay.name(dir + "/" + child)
	return ok && (strings.HasPrefix(name, prefix) || strings.HasPrefix(prefix, name+"/"))
}

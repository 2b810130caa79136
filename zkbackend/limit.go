package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// A line's limit is the name of the only child of a folder beside it. A join
// checks that this child is there, in its own transaction, without having read
// it: the version of a node that held the number as its data would be the same
// again when somebody has deleted it and made another.

// limitFolder is what a limit's folder holds.
type limitFolder struct {
	limit   int64 // 0: none
	version int32 // of the folder's data, which changes with each limit
	there   bool
}

// readLimit reads the limit of a line.
func (s *sess) readLimit(ctx context.Context, line string) (limitFolder, error) {
	dir := s.b.lay.limit(line)
	c, err := s.children(ctx, dir)
	if err != nil {
		return limitFolder{}, translate(err, "READ", dir)
	}
	return c.limit(dir)
}

// limit takes a folder for that of a limit.
func (c children) limit(dir string) (limitFolder, error) {
	f := limitFolder{version: c.stat.Version, there: c.stat.Czxid != 0}
	if len(c.names) == 0 {
		return f, nil
	}
	n, err := strconv.ParseInt(c.names[0], 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != c.names[0] || len(c.names) > 1 {
		return f, fmt.Errorf("%w: %s must have one child, with the limit as its name, and has %d, %.40q first", driver.ErrRefused, dir, len(c.names), c.names[0])
	}
	f.limit = n
	return f, nil
}

// newestLimit reads it as it is now, and not as a follower had it.
func (s *sess) newestLimit(ctx context.Context, line string) (limitFolder, error) {
	if s.proof != ProofPing {
		if err := s.catchUp(ctx); err != nil {
			return limitFolder{}, err
		}
	}
	return s.readLimit(ctx, line)
}

// changeLimit gives a line a limit, if it has still the one that was read. It says again if somebody
// else has, or may have, meanwhile.
func (s *sess) changeLimit(ctx context.Context, line string, f limitFolder, limit int64) (again bool, _ error) {
	dir := s.b.lay.limit(line)
	if !f.there {
		return true, s.makeFolder(ctx, dir)
	}
	child := func(n int64) string { return dir + "/" + strconv.FormatInt(n, 10) }
	t := transaction{{role: toLimit, op: &zk.SetDataRequest{Path: dir, Data: []byte{}, Version: f.version}}}
	if f.limit != 0 && f.limit != limit {
		t = append(t, step{role: toLimit, op: &zk.DeleteRequest{Path: child(f.limit), Version: -1}})
	}
	if f.limit != limit {
		t = append(t, step{role: toLimit, op: &zk.CreateRequest{Path: child(limit), Data: []byte{}, Acl: s.acl()}})
	}
	_, err := s.transact(ctx, t)
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists):
		return true, nil
	}
	return false, translate(err, "WRITE", dir)
}

// SetLimit implements driver.Session. It writes the folder also where the line has
// that limit already: an attempt of an earlier call that was not answered, and is
// carried out later, is refused then.
func (s *sess) SetLimit(ctx context.Context, line string, limit int64) error {
	if limit < 1 {
		return fmt.Errorf("zookeeper: limit of %q: %w: %d is less than 1", line, driver.ErrRefused, limit)
	}
	for {
		f, err := s.newestLimit(ctx, line)
		again := false
		if err == nil {
			again, err = s.changeLimit(ctx, line, f, limit)
		}
		if err != nil {
			return fmt.Errorf("zookeeper: limit of %q: %w", line, err)
		}
		if !again {
			return nil
		}
	}
}

// ownLimit returns the limit of a line, which is given the one asked for if it
// has none.
func (s *sess) ownLimit(ctx context.Context, line string, asked int64) (int64, error) {
	for {
		f, err := s.newestLimit(ctx, line)
		if err != nil || f.limit != 0 {
			return f.limit, err
		}
		again, err := s.changeLimit(ctx, line, f, asked)
		if err != nil || !again {
			return asked, err
		}
	}
}

// Limit implements driver.Backend.
func (b *backend) Limit(ctx context.Context, name string) (limit int64, _ error) {
	err := b.visit(ctx, func(s *sess) error {
		f, err := s.readLimit(ctx, name)
		limit = f.limit
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("zookeeper: limit of %q: %w", name, err)
	}
	return limit, nil
}

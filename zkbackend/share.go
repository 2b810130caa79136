package zkbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// Share implements driver.Session.
//
// It is one transaction, as Curator's downgrade is two requests: a reader is made
// with the number of the writer, and the writer is deleted. What the reader says
// of itself tells the writer's token, which is not its own czxid.
func (s *sess) Share(ctx context.Context, ref driver.Ref) (driver.Turned, error) {
	to, err := s.share(ctx, ref)
	if err != nil {
		return driver.Turned{}, fmt.Errorf("zookeeper: share %q: %w", ref.Line, err)
	}
	return driver.Turned{Ref: to}, nil
}

func (s *sess) share(ctx context.Context, ref driver.Ref) (driver.Ref, error) {
	n, ok := refNode(ref)
	switch {
	case !ok || n.guid == "":
		return driver.Ref{}, driver.ErrGone
	case n.mode == driver.Shared:
		stat, err := s.exists(ctx, ref.Key)
		if err == nil && stat == nil {
			err = driver.ErrGone
		}
		return ref, err
	case n.mode != driver.Exclusive || n.valued:
		return driver.Ref{}, fmt.Errorf("%w: %q is no writer", driver.ErrRefused, n.name)
	}
	known, err := s.writer(ctx, ref, n)
	if err != nil {
		return driver.Ref{}, err
	}
	dir := s.b.lay.dir(ref.Line)
	to := ref
	to.Key = dir + "/" + s.b.lay.reader(n)
	s.note(mark{ref.Line, n.guid}, func(k *notes) { k.shared, k.meta, k.token = true, known.meta, known.token })
	o, err := s.transact(ctx, transaction{
		{toCreate, 0, &zk.CreateRequest{
			Path: to.Key, Data: addition{Token: known.token}.onto(known.meta), Acl: s.entryACL(), Flags: zk.FlagEphemeral,
		}},
		{toDelete, 0, &zk.DeleteRequest{Path: ref.Key, Version: -1}},
	})
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists): // by an earlier one that was not answered
		return to, nil
	case errors.Is(err, zk.ErrNoNode):
		return driver.Ref{}, driver.ErrGone
	case o.failed.role == toCreate:
		return driver.Ref{}, translate(err, "CREATE", dir)
	}
	return driver.Ref{}, translate(err, "DELETE", dir)
}

// writer returns what an entry says of itself, and its token. It asks only if
// the entry was not made as that of a read-write lock.
func (s *sess) writer(ctx context.Context, ref driver.Ref, n node) (notes, error) {
	known, _ := s.noted(mark{ref.Line, n.guid})
	if known.meta != nil && known.token != 0 {
		return known, nil
	}
	data, stat, err := s.content(ctx, ref.Key)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return known, driver.ErrGone
	case err != nil:
		return known, translate(err, "READ", ref.Key)
	}
	known.meta, known.token = data, stat.Czxid
	return known, nil
}

// content reads a node.
func (s *sess) content(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	type content struct {
		data []byte
		stat *zk.Stat
	}
	c, err := ask(ctx, s, func(c *zk.Conn) (content, error) {
		data, stat, err := c.Get(path)
		return content{data, stat}, err
	})
	return c.data, c.stat, err
}

package zkbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// The record of finished work is the data of a node beside the queue.

// Done implements driver.Session.
func (s *sess) Done(ctx context.Context, line string) ([]byte, error) {
	record, _, err := s.newestDone(ctx, line)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: read what is done in %q: %w", line, err)
	}
	return record, nil
}

// newestDone reads the record as it is now, and its version; -1 if there is no node.
func (s *sess) newestDone(ctx context.Context, line string) (record []byte, version int32, err error) {
	if err = s.catchUp(ctx); err != nil {
		return nil, 0, err
	}
	path := s.b.lay.done(line)
	data, stat, err := s.content(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, -1, nil
	case err != nil:
		return nil, 0, translate(err, "READ", path)
	case len(data) == 0:
		data = nil
	}
	return data, stat.Version, nil
}

// MarkDone implements driver.Session. It writes only over what it has read.
func (s *sess) MarkDone(ctx context.Context, ref driver.Ref, update func([]byte) []byte) error {
	for {
		again, err := s.markDone(ctx, ref, update)
		if err != nil {
			return fmt.Errorf("zookeeper: mark as done in %q: %w", ref.Line, err)
		}
		if !again {
			return nil
		}
	}
}

// markDone returns true if the record has changed, or may have, since it was read.
func (s *sess) markDone(ctx context.Context, ref driver.Ref, update func([]byte) []byte) (again bool, err error) {
	n, ok := refNode(ref)
	if !ok || n.guid == "" {
		return false, driver.ErrGone
	}
	was, version, err := s.newestDone(ctx, ref.Line)
	if err != nil {
		return false, err
	}
	path, record := s.b.lay.done(ref.Line), update(was)
	t := transaction{{toProbe, 0, &zk.CheckVersionRequest{Path: ref.Key, Version: -1}}}
	switch {
	case len(record) > driver.MaxDone:
		return false, fmt.Errorf("%w: a record of %d bytes, more than %d", driver.ErrRefused, len(record), driver.MaxDone)
	case record == nil: // what is left is to see that the entry is there
	case version < 0:
		t = append(t, step{toTell, 0, &zk.CreateRequest{Path: path, Data: record, Acl: s.acl()}})
	default:
		t = append(t, step{toTell, 0, &zk.SetDataRequest{Path: path, Data: record, Version: version}})
	}
	o, err := s.transact(ctx, t)
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, zk.ErrNoNode) && o.failed.role == toProbe:
		return false, driver.ErrGone
	case errors.Is(err, zk.ErrNoNode) && version < 0:
		return true, s.folderOf(ctx, path)
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return true, nil
	}
	return false, translate(err, "WRITE", path)
}

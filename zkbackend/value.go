package zkbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// Write implements driver.Session. It writes the folder's data too, which tells
// those who watch the line.
func (s *sess) Write(ctx context.Context, ref driver.Ref, value []byte) error {
	if err := s.write(ctx, ref, value); err != nil {
		return fmt.Errorf("zookeeper: write %q: %w", ref.Line, err)
	}
	return nil
}

// errLatch: Curator's LeaderLatch watches the one before it by a watch that fires
// once, and takes no notice of anything but its end. After a change it would wait
// for ever (LeaderLatch.checkLeadership of 5.4, seen).
var errLatch = fmt.Errorf("%w: a value there cannot be changed, because Curator's candidates would wait for ever", driver.ErrRefused)

func (s *sess) write(ctx context.Context, ref driver.Ref, value []byte) error {
	n, ok := refNode(ref)
	switch {
	case !ok:
		return driver.ErrGone
	case !n.valued:
		return fmt.Errorf("%w: %q was made without a value", driver.ErrRefused, n.name)
	case len(value) > maxValue:
		return tooLong(len(value))
	case n.marker == markLatch:
		return fmt.Errorf("%w: %q stands in the line of a LeaderLatch", errLatch, n.name)
	case value == nil:
		value = []byte{}
	}
	dir := s.b.lay.dir(ref.Line)
	o, err := s.transact(ctx, transaction{
		{toChange, 0, &zk.SetDataRequest{Path: ref.Key, Data: value, Version: -1}},
		{toCount, 0, &zk.SetDataRequest{Path: dir, Data: s.word(dir), Version: -1}},
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return driver.ErrGone
	case o.failed.role == toCount && hasCode(err, codeQuota) && s.forgetWord(dir):
		return s.write(ctx, ref, value) // an empty word takes no byte
	case o.failed.role == toCount:
		return translate(err, "WRITE", dir)
	}
	return translate(err, "WRITE", ref.Key)
}

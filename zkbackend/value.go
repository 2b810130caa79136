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
//
// The write is conditional on the entry's version, so that an attempt which was not
// answered, and is carried out after a later write, is refused. Where the version
// is another than expected, by such an attempt or by somebody else's write, the
// value is written over it.
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
		return fmt.Errorf("%w: %q is in the queue of a LeaderLatch", errLatch, n.name)
	case value == nil:
		value = []byte{}
	}
	dir := s.b.lay.dir(ref.Line)
	m := mark{ref.Line, n.guid}
	known, _ := s.noted(m)
	for version := known.version; ; {
		o, err := s.transact(ctx, transaction{
			{toChange, 0, &zk.SetDataRequest{Path: ref.Key, Data: value, Version: version}},
			{toCount, 0, &zk.SetDataRequest{Path: dir, Data: s.word(dir), Version: -1}},
		})
		switch {
		case err == nil:
			s.note(m, func(k *notes) { k.version = version + 1 })
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return driver.ErrGone
		case o.failed.role == toCount && hasCode(err, codeQuota) && s.forgetWord(dir):
			continue // an empty word takes no byte
		case o.failed.role == toCount:
			return translate(err, "WRITE", dir)
		case !errors.Is(err, zk.ErrBadVersion):
			return translate(err, "WRITE", ref.Key)
		}
		if version, err = s.newestVersion(ctx, ref.Key); err != nil {
			return err
		}
	}
}

// newestVersion reads how often a node was written.
func (s *sess) newestVersion(ctx context.Context, path string) (int32, error) {
	if err := s.catchUp(ctx); err != nil {
		return 0, err
	}
	stat, err := s.exists(ctx, path)
	switch {
	case err != nil:
		return 0, err
	case stat == nil:
		return 0, driver.ErrGone
	}
	return stat.Version, nil
}

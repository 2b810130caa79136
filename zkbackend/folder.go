package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// folders makes folders, as containers: the servers remove them when they have been empty
// for a while (a minute by default), so that an idle queue leaves nothing. If a folder is
// removed before its use, the caller makes it again.
type folders struct {
	conn *conn.Session
	acl  []zk.ACL
	log  *slog.Logger
}

// ensure makes a folder unless it is there.
//
// The servers remove an empty container only if it has had a child. So ensure makes one and
// deletes it, in the background, also if ctx has ended.
func (f *folders) ensure(ctx context.Context, path string) error {
	made := make(chan error, 1)
	began := f.conn.Go(func(ctx context.Context) {
		isNew, err := f.create(ctx, path)
		if made <- err; !isNew {
			return
		}
		_, err = f.conn.Repeat(ctx, touching(path, f.acl).request())
		if err != nil && !isMissing(err) && !isClassified(err) {
			f.log.Warn("zookeeper: an empty folder may stay", "path", path, "err", err)
		}
	})
	if !began {
		return driver.ErrSessionOver
	}
	select {
	case err := <-made:
		return err
	case <-ctx.Done():
		return driver.ContextError(ctx) //nolint:wrapcheck // the verbs do
	}
}

// create makes a folder. Only if that fails it makes the folder above, because usually that one
// is there. isNew is false if another client has made the folder, or it was not made because the
// folder above has been removed meanwhile.
func (f *folders) create(ctx context.Context, path string) (isNew bool, err error) {
	parent, _ := split(path)
	for again := false; ; again = true {
		var a conn.Answer
		switch a, err = f.conn.Repeat(ctx, conn.CreateContainer(path, f.acl)); {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNodeExists):
			return a.Repeated, nil // an attempt whose answer was lost may have made it
		case again && isMissing(err):
			return false, nil
		case !isMissing(err):
			return false, fmt.Errorf("make the folder %s: %w", path, translate(err, "CREATE", parent))
		}
		if _, err = f.create(ctx, parent); err != nil {
			return false, err
		}
	}
}

// touching returns steps that notify every watch of a folder's children, and have no other
// effect: no entry has such a name, and no read shows the node.
func touching(path string, acl []zk.ACL) transaction {
	child := path + "/" + random(guidLen/2)
	return transaction{
		{role: toTouch, req: create(child, nil, zk.FlagEphemeral, acl)},
		{role: toTouch, req: remove(child)},
	}
}

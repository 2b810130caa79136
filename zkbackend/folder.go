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

// ensure makes a folder unless it is there. It returns true if it is certain that this call has
// made it.
//
// The servers remove an empty container only if it has had a child. So ensure makes one and
// deletes it, in the background, also if ctx has ended.
func (f *folders) ensure(ctx context.Context, path string) (fresh bool, err error) {
	made := make(chan creation, 1)
	began := f.conn.Go(func(ctx context.Context) {
		c := f.create(ctx, path)
		if made <- c; !c.fresh && !c.perhaps {
			return
		}
		_, err := f.conn.Repeat(ctx, touching(path, f.acl).request())
		if err != nil && !isMissing(err) && !isClassified(err) {
			f.log.Warn("zookeeper: an empty folder may stay", "path", path, "err", err)
		}
	})
	if !began {
		return false, driver.ErrSessionOver
	}
	select {
	case c := <-made:
		return c.fresh, c.err
	case <-ctx.Done():
		return false, driver.ContextError(ctx) //nolint:wrapcheck // the verbs do
	}
}

// creation is what became of a call of create.
type creation struct {
	fresh   bool // it has made the folder
	perhaps bool // an attempt whose answer was lost may have made it
	err     error
}

// create makes a folder. Only if that fails it makes the folder above, because usually that one
// is there. The result is zero if another client has made the folder, or it was not made because
// the folder above has been removed meanwhile.
func (f *folders) create(ctx context.Context, path string) creation {
	parent, _ := split(path)
	for again := false; ; again = true {
		a, err := f.conn.Repeat(ctx, conn.CreateContainer(path, f.acl))
		switch {
		case err == nil:
			return creation{fresh: true}
		case errors.Is(err, zk.ErrNodeExists):
			return creation{perhaps: a.Repeated}
		case again && isMissing(err):
			return creation{}
		case !isMissing(err):
			return creation{err: fmt.Errorf("make the folder %s: %w", path, translate(err, "CREATE", parent))}
		}
		if above := f.create(ctx, parent); above.err != nil {
			return above
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

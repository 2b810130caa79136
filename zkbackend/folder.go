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
//
// No state: which folders are there is the servers' knowledge alone, because any client may make one
// and the servers may remove one at any moment.
type folders struct {
	conn *conn.Session
	acl  []zk.ACL // of new folders
	log  *slog.Logger
}

// ensure makes a folder unless it is there. It returns true if it is certain that this call has
// made it.
//
// The servers remove an empty container only if it has had a child. So ensure makes one and
// deletes it, in the background, also if ctx has ended. The folder is made in the background too: a
// caller whose context ends leaves no folder that has had no child.
func (f *folders) ensure(ctx context.Context, path string) (fresh bool, err error) {
	made := make(chan creation, 1)
	began := f.conn.Go(func(ctx context.Context) {
		c := f.create(ctx, path)
		made <- c
		if !c.fresh && !c.perhaps {
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
//
//	fresh   perhaps   err   the folder
//	yes     no        nil   was made by the call
//	no      yes       nil   was there, and an attempt whose answer was lost may have made it
//	no      no        nil   was made by another client, or was not made because the folder above has been
//	                        removed meanwhile
//	no      no        set   was not made
type creation struct {
	fresh   bool
	perhaps bool
	err     error
}

// create makes a folder. Only if that fails it makes the folder above, because usually that one
// is there. It tries twice: the caller makes a folder again if it is not there when it is used.
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
		above := f.create(ctx, parent)
		if above.err != nil {
			return above
		}
	}
}

// touching returns steps that notify every watch of a folder's children, and have no other
// effect: no entry has such a name, and no read shows the node. They need the permissions CREATE and
// DELETE on the folder, so they also test both.
func touching(path string, acl []zk.ACL) transaction {
	child := path + "/" + random(guidLen/2)
	return transaction{
		{role: toTouch, req: create(child, nil, zk.FlagEphemeral, acl)},
		{role: toTouch, req: remove(child)},
	}
}

package zkbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// makeFolder makes what is missing of a folder, as containers: the servers remove them
// when they have been empty for a while (a minute by default), so that an idle queue
// leaves nothing. If the folder is removed before its use, the caller makes it again.
//
// The servers remove an empty container only if it has ever had a child. So the session
// makes one and deletes it, and goes on with that after the caller has given up.
func (s *zkSession) makeFolder(ctx context.Context, path string) error {
	made := make(chan error, 1)
	began := s.conn.Go(func(ctx context.Context) {
		isNew, err := s.makeFolders(ctx, path)
		made <- err
		if isNew {
			s.touch(ctx, path)
		}
	})
	if !began {
		return driver.ErrSessionOver
	}
	select {
	case err := <-made:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

// makeFolders begins at the bottom, because usually only the last folder is missing.
func (s *zkSession) makeFolders(ctx context.Context, path string) (isNew bool, err error) {
	var missing []string
	for p := path; p != ""; p, _ = split(p) {
		if isNew, err = s.makeContainer(ctx, p); !isMissing(err) {
			break
		}
		missing = append(missing, p)
	}
	for i := len(missing) - 1; i >= 0 && err == nil; i-- {
		isNew, err = s.makeContainer(ctx, missing[i])
	}
	if isMissing(err) { // a folder above was removed meanwhile
		return false, nil
	}
	return isNew, err
}

func (s *zkSession) makeContainer(ctx context.Context, path string) (isNew bool, err error) {
	_, err = s.conn.Repeat(ctx, conn.CreateContainer(path, s.acl))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, zk.ErrNodeExists):
		return false, nil
	case isMissing(err):
		return false, err
	}
	parent, _ := split(path)
	return false, fmt.Errorf("make the folder %s: %w", path, translate(err, "CREATE", parent))
}

// touch makes a node in a folder and deletes it.
func (s *zkSession) touch(ctx context.Context, path string) {
	_, err := s.conn.Repeat(ctx, s.touching(path).request())
	if err != nil && !isMissing(err) && !isClassified(err) {
		s.cfg.Logger.Warn("zookeeper: an empty folder may stay", "path", path, "err", err)
	}
}

// touching are the steps that notify those that watch a folder's children, and change
// nothing that could be seen: no entry has such a name, and no read comes between.
func (s *zkSession) touching(path string) transaction {
	child := path + "/" + random(guidLen/2)
	return transaction{
		{role: toTouch, req: create(child, nil, zk.FlagEphemeral, s.acl)},
		{role: toTouch, req: remove(child)},
	}
}

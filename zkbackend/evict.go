package zkbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// Evict implements driver.Backend.
//
// A name with a random part is never used again, so the node that has it is the
// entry. Those that others made need not have one, and the numbers in them begin
// anew with an idle folder; so of these the czxid is looked at first. There is no
// condition for it in a transaction: between the look and the delete the folder
// would have to empty, to be removed and made again, and to count as far.
func (b *backend) Evict(ctx context.Context, e driver.Entry) error {
	n, ok := refNode(e.Ref)
	dir, _ := split(e.Key)
	err := error(driver.ErrGone)
	if ok && dir == b.lay.dir(e.Line) {
		unsure := false
		err = b.visit(ctx, func(s *sess) error { return s.evict(ctx, e, n, &unsure) })
		if unsure && errors.Is(err, driver.ErrGone) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("zookeeper: evict %q from %q: %w", n.name, e.Line, err)
	}
	return nil
}

// evict deletes an entry. It sets unsure if an attempt was not answered.
func (s *sess) evict(ctx context.Context, e driver.Entry, n node, unsure *bool) error {
	if n.guid == "" && e.Token != 0 {
		stat, err := s.exists(ctx, e.Key)
		switch {
		case err != nil:
			return err
		case stat == nil || stat.Czxid != e.Token:
			return driver.ErrGone
		}
	}
	_, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, c.Delete(e.Key, -1) //nolint:wrapcheck // the answer to a request
	}, func() { *unsure = true })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return driver.ErrGone
	}
	dir, _ := split(e.Key)
	return translate(err, "DELETE", dir)
}

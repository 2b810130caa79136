package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// The record of a grant is an ephemeral node beside the line. Its name says all: so
// one read of their folder shows those of a whole line. It does not stand in the
// entry, where every change is word of a release (see seal).

// grant is the name of such a node.
func grant(guid string, at time.Time) string {
	return guid + "-" + strconv.FormatInt(at.UnixMilli(), 10)
}

// readGrant reads the name of such a node.
func readGrant(name string) (guid string, at time.Time, ok bool) {
	guid, text, ok := strings.Cut(name, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || ms <= 0 || len(guid) != guidLen {
		return "", time.Time{}, false
	}
	return guid, time.UnixMilli(ms), true
}

// Record implements driver.Session.
//
// What is sent is noted first. Whatever becomes of the request, the record goes
// with the entry: Leave deletes it, and after that a late request does not find
// the entry any more.
func (s *sess) Record(ctx context.Context, ref driver.Ref, granted time.Time) error {
	if err := s.record(ctx, ref, granted); err != nil {
		return fmt.Errorf("zookeeper: record the grant of %q: %w", ref.Line, err)
	}
	return nil
}

func (s *sess) record(ctx context.Context, ref driver.Ref, granted time.Time) error {
	n, ok := refNode(ref)
	if !ok || n.guid == "" {
		return driver.ErrGone
	}
	var name string
	s.note(mark{ref.Line, n.guid}, func(k *notes) {
		if k.granted == "" {
			k.granted = grant(n.guid, granted)
		}
		name = k.granted // the first call counts
	})
	dir, unsure := s.b.lay.grants(ref.Line), false
	for {
		o, err := s.transact(ctx, transaction{
			{toProbe, 0, &zk.CheckVersionRequest{Path: ref.Key, Version: -1}},
			{toTell, 0, &zk.CreateRequest{Path: dir + "/" + name, Data: []byte{}, Acl: s.acl(), Flags: zk.FlagEphemeral}},
		}, func() { unsure = true })
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNodeExists): // by an attempt of ours: the name is random
			stat, err := s.exists(ctx, ref.Key)
			if err == nil && stat == nil {
				err = driver.ErrGone
			}
			return err
		case errors.Is(err, zk.ErrNoNode) && o.failed.role == toProbe:
			return driver.ErrGone
		case errors.Is(err, zk.ErrNoNode):
			if err = s.makeHeld(ctx, dir); err == nil {
				continue
			}
		default:
			err = translate(err, "CREATE", dir)
		}
		if driver.Incurable(err) && !unsure { // a release need not delete what is not there
			s.note(mark{ref.Line, n.guid}, func(k *notes) { k.granted = "" })
		}
		return err
	}
}

// makeHeld makes the folder of records. The entry may go before its record comes,
// and the caller with it: so the session goes on until the folder is one that the
// servers remove when it is empty.
func (s *sess) makeHeld(ctx context.Context, dir string) error {
	done := make(chan error, 1)
	s.mu.Lock()
	begun := s.goes(func() { // ends with the session
		err := s.makeFolder(s.ctx, dir)
		if err == nil {
			err = s.makeUsed(s.ctx, dir)
		}
		done <- err
	})
	s.mu.Unlock()
	if !begun {
		return driver.ErrSessionOver
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return driver.ErrSessionOver
	}
}

// grantsIn reads the records of a line, by the random parts of its entries.
func (s *sess) grantsIn(ctx context.Context, line string) (map[string]time.Time, error) {
	dir := s.b.lay.grants(line)
	c, err := s.children(ctx, dir)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return nil, nil // none are known
	case err != nil:
		return nil, translate(err, "READ", dir)
	}
	at := make(map[string]time.Time, len(c.names))
	for _, name := range c.names {
		if guid, t, ok := readGrant(name); ok {
			at[guid] = t
		}
	}
	return at, nil
}

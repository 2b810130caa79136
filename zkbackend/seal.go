package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

// seal is what keeps everybody else from writing an entry: a login that only
// this session knows, and that alone has the permission WRITE on its entries.
//
// A holder gives a sealed entry back by writing it and deleting it in one
// transaction. The watch of whoever stands behind then tells of a change, where a
// plain deletion, of a waiter that leaves or a session that dies, tells of a
// deletion (seen on 3.8: DataTree.processTxn applies the parts of a transaction
// one by one, and a watch fires once). So the hand-off needs no read at all. It
// would be wrong if anybody else could write there: Curator's Revoker does.
//
// It takes servers that enforce permissions, which is asked when a session is
// opened. What is left are operators who log in as "super", and owners who lie:
// whoever believed a word and holds for more than a moment looks at the line.
type seal struct {
	auth Auth
	acl  zk.ACL
}

// sealed says that an entry of that name is sealed.
func sealed(name string) bool {
	n, ok := parseNode(name)
	return ok && n.sealed
}

// newSeal makes up a login.
func newSeal() *seal {
	user, password := "fairlock-"+random(8), random(16)
	return &seal{auth: DigestAuth(user, password), acl: zk.DigestACL(zk.PermRead|zk.PermWrite, user, password)[0]}
}

// auth is what the session shows on every connection. Its first does not show
// the seal yet: that follows when it is known to be of use.
func (s *sess) auth() []Auth {
	if s.seal == nil {
		return s.b.logins()
	}
	return append(slices.Clone(s.b.logins()), s.seal.auth)
}

// acl is the ACL of new nodes that are no entries: what the user wants.
func (s *sess) acl() []zk.ACL {
	if s.seal == nil {
		return s.b.opts.ACL
	}
	return s.b.sealedACL
}

// entryACL is the ACL of new entries: what the user wants, without the permission
// to write or to change that.
func (s *sess) entryACL() []zk.ACL {
	if s.seal == nil {
		return s.acl()
	}
	var acl []zk.ACL
	for _, a := range s.acl() {
		if a.Perms &^= zk.PermWrite | zk.PermAdmin; a.Perms != 0 {
			acl = append(acl, a)
		}
	}
	return append(acl, s.seal.acl)
}

// setSeal gives the session a seal if the servers enforce permissions, and if the
// session may write what only the seal may write: servers with another digestAlg
// do not know the seal by the digest that is computed here. A session without a
// seal costs the hand-off a read.
func (s *sess) setSeal(ctx context.Context, l *link) error {
	if s.b.unsealed.Load() {
		return nil
	}
	known := s.b.sealable.Load()
	if !known {
		may, err := s.mayWrite(ctx, l, zk.WorldACL(zk.PermRead))
		if err != nil || may != writeDenied { // it may if we are "super" ourselves
			return err
		}
	}
	seal := newSeal()
	switch err := l.login(ctx, seal.auth); {
	case errors.Is(err, zk.ErrAuthFailed):
		s.b.unsealed.Store(true)
		return fmt.Errorf("%w: %w", errNoSeal, err)
	case err != nil:
		return lostAtOnce(err)
	}
	if !known {
		switch may, err := s.mayWrite(ctx, l, []zk.ACL{seal.acl}); {
		case err != nil:
			return err
		case may != writeAllowed:
			s.b.unsealed.Store(true)
			return fmt.Errorf("%w: the servers do not give it the permission WRITE: digestAlg is not SHA1", errNoSeal)
		}
		s.b.sealable.Store(true)
	}
	s.seal = seal
	return nil
}

// errNoSeal: entries cannot be sealed by a login, which the connection may have
// shown already.
var errNoSeal = errors.New("zookeeper: the session's own login does not work")

// writing is what mayWrite finds out.
type writing int

const (
	writeUnknown writing = iota // no node could be made
	writeAllowed
	writeDenied
)

// mayWrite asks whether the session may write a node with that ACL, by a
// transaction that makes one, writes it and deletes it. Nothing of it stays.
func (s *sess) mayWrite(ctx context.Context, l *link, acl []zk.ACL) (writing, error) {
	for _, dir := range []string{s.b.lay.root, ""} {
		path := dir + "/fairlock-" + random(guidLen/2)
		step, err := onLink(ctx, l, func(c *zk.Conn) (int, error) {
			r, err := c.Multi(
				&zk.CreateRequest{Path: path, Data: []byte{}, Acl: acl, Flags: zk.FlagEphemeral},
				&zk.SetDataRequest{Path: path, Data: []byte{}, Version: -1},
				&zk.DeleteRequest{Path: path, Version: -1},
			)
			return failedStep(r), err
		})
		switch {
		case outcomeOf(err) == lost:
			return writeUnknown, lostAtOnce(err)
		case errors.Is(err, zk.ErrNoAuth) && step == 1:
			return writeDenied, nil
		case err == nil, errors.Is(err, zk.ErrNoAuth) && step == 2: // the delete is another permission
			return writeAllowed, nil
		}
	}
	return writeUnknown, nil
}

package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
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
		return s.b.opts.Auth
	}
	return append(slices.Clone(s.b.opts.Auth), s.seal.auth)
}

// entryACL is the ACL of new entries: what the user wants, without the permission
// to write or to change that.
func (s *sess) entryACL() []zk.ACL {
	if s.seal == nil {
		return s.b.opts.ACL
	}
	var acl []zk.ACL
	for _, a := range s.b.opts.ACL {
		if a.Perms &^= zk.PermWrite | zk.PermAdmin; a.Perms != 0 {
			acl = append(acl, a)
		}
	}
	return append(acl, s.seal.acl)
}

// setSeal gives the session a seal if the servers enforce permissions. That it
// has none costs the hand-off a read.
func (s *sess) setSeal(ctx context.Context, l *link) error {
	if s.b.unsealed.Load() {
		return nil
	}
	if !s.b.enforced.Load() {
		enforced, err := s.enforces(ctx, l)
		if err != nil || !enforced {
			return err
		}
		s.b.enforced.Store(true)
	}
	seal := newSeal()
	if err := l.login(ctx, seal.auth); errors.Is(err, zk.ErrAuthFailed) {
		s.b.unsealed.Store(true)
		return fmt.Errorf("%w: %w", errNoSeal, err)
	} else if err != nil {
		return err
	}
	s.seal = seal
	return nil
}

// errNoSeal: the server knows no passwords, and closes the connection on one.
var errNoSeal = errors.New("zookeeper: the login of a session of its own was refused")

// enforces asks whether the servers enforce permissions, by a transaction that
// writes what nobody may write. If they do it fails, and has done nothing.
func (s *sess) enforces(ctx context.Context, l *link) (bool, error) {
	for _, dir := range []string{s.b.lay.root, ""} {
		path := dir + "/fairlock-" + random(guidLen/2)
		step, err := onLink(ctx, l, func(c *zk.Conn) (int, error) {
			r, err := c.Multi(
				&zk.CreateRequest{Path: path, Data: []byte{}, Acl: zk.WorldACL(zk.PermRead), Flags: zk.FlagEphemeral},
				&zk.SetDataRequest{Path: path, Data: []byte{}, Version: -1},
				&zk.DeleteRequest{Path: path, Version: -1},
			)
			return failedStep(r), err
		})
		switch {
		case outcomeOf(err) == lost:
			return false, fmt.Errorf("%w: lost the connection at once: %w", driver.ErrUnavailable, err)
		case errors.Is(err, zk.ErrNoAuth) && step == 1:
			return true, nil
		case err == nil: // or we are "super" ourselves
			return false, nil
		}
	}
	return false, nil
}

// moment is how long a grant lasts before the word that it rests on is doubted.
const moment = 50 * time.Millisecond

// doubtful is an entry whose word was believed, and the newest transaction that
// the session knew of then.
type doubtful struct {
	path string
	zxid int64
}

// doubt has the line looked at in a moment, because the word of an entry was
// believed, unless that is of no interest any more by then. The caller holds s.mu.
func (s *sess) doubt(path string) {
	dir, _ := split(path)
	d := doubtful{path: path, zxid: s.zxid}
	if s.cur != nil {
		d.zxid = max(d.zxid, s.cur.zxid.Load())
	}
	s.doubts[dir] = d
	if len(s.doubts) == 1 {
		s.b.clock.AfterFunc(moment, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.doubts) > 0 {
				doubts := s.doubts
				s.doubts = map[string]doubtful{}
				s.goes(func() { s.verify(doubts) })
			}
		})
	}
}

// verify ends the session if a word was wrong that it believed, and has nobody
// believed from then on.
func (s *sess) verify(doubts map[string]doubtful) {
	for dir, d := range doubts {
		err := s.refute(dir, d)
		if err == nil {
			continue
		}
		s.b.unsealed.Store(true)
		s.b.wary.Store(true)
		s.cfg.Logger.Error("zookeeper: a lock may have been granted twice; ending the session", "session", s.ID(), "err", err)
		s.cancel()
		s.cfg.Gone(err)
		return
	}
}

// refute looks for what shows that a word was wrong: the entry itself, or one
// before it. Whoever gives back a hold was the first in line, but to say so takes
// no more than an own entry. One with a low number that came after the word was
// put there by a program that makes up numbers, and says nothing about it.
func (s *sess) refute(dir string, d doubtful) error {
	c, err := s.children(s.ctx, dir)
	if err != nil {
		return nil //nolint:nilerr // it is not known
	}
	_, name := split(d.path)
	last, _ := parseNode(name)
	for _, n := range slices.Backward(parseNodes(c.names)) {
		if n.seq > last.seq {
			continue
		}
		stat, err := s.exists(s.ctx, dir+"/"+n.name)
		switch {
		case err != nil || stat == nil || stat.Czxid > d.zxid:
		case n.name == name:
			return fmt.Errorf("%w: %s", errBroken, d.path)
		default:
			return fmt.Errorf("%w: %s, behind %s", errWord, d.path, n.name)
		}
	}
	return nil
}

// errWord: the owner of an entry is a liar, or does not know what a seal means.
var errWord = errors.New("zookeeper: an entry left word of a hold that it cannot have had")

// errBroken: somebody wrote an entry that was not his.
var errBroken = errors.New("zookeeper: somebody else wrote a sealed entry, which takes the login \"super\"")

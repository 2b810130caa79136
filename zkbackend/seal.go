package zkbackend

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// # A hand-off without a read
//
// When an entry ends, the waiter behind it must know whether another entry is still ahead. A listing
// shows that, at the price of the whole queue. The release notice makes it unnecessary:
//
//   - A session that releases an entry which was the first of its queue writes the entry and deletes it,
//     in one transaction. The watch of the waiter behind it reports a change.
//   - The entry of a waiter that gives up, or of a session that expires, is only deleted. The watch
//     reports a deletion.
//
// (DataTree.processTxn applies the parts of a transaction one by one, and a watch fires once; seen on
// 3.8 and 3.9.) So from a change the waiter knows that no entry is ahead, without a read.
//
// That would be wrong if other clients could write the entry, as Curator's Revoker does. So the entry is
// sealed: its ACL permits WRITE only to a login that the session has made up, and that no other client
// knows. The "x" in its name shows all clients that a change means a release.
//
// The parts, in the order in which an entry meets them:
//
//	Open     tests on the first session whether the servers enforce this: openSealed, isUseful
//	Join     names the entry, and gives it its ACL: sealable, entryACL
//	Update   never writes a sealed entry in place, unless it is a candidate with a value. A downgrade
//	         deletes the node before it makes it anew, so watches report a deletion: see update
//	Leave    writes the entry before it deletes it: notice
//	Watch    takes the change for a release: isRelease, wasFirst
//	Guard    requires version 0 of a writer, which only the downgrade raises: see condition
//
// Without a seal, a waiter reads the queue when the entry ahead of it is gone. So it does behind an entry
// without the "x", whatever its own session has.
//
// What this rests on, and what breaks it:
//
//   - "super", which is permitted everything, writes an entry: the waiter behind it holds as well.
//   - A program imitates the name of a sealed entry, and writes its entry while another is ahead.
//   - The servers' skipACL or digestAlg changes under a living backend, which tests them once.
//
// The package documentation states all three. A watch must be made anew by a read after each
// connection, never by SetWatches: that reports a change for a node that a downgrade has made anew.

// seal is a login that only one session knows. It alone has the permission WRITE on the entries of that
// session. It never changes, and every connection of the session logs in with it.
type seal struct {
	auth conn.Auth
	acl  zk.ACL // READ and WRITE for the login
}

func newSeal() *seal {
	user, password := "fairlock-"+random(8), random(16)
	return &seal{
		auth: conn.Auth{Scheme: "digest", Credentials: []byte(user + ":" + password)},
		acl:  zk.DigestACL(zk.PermRead|zk.PermWrite, user, password)[0],
	}
}

// sealState is what a backend knows of seals on its servers. The order is that of time: it only grows.
type sealState int32

const (
	sealUntested sealState = iota // the next session tests it
	sealUseful                    // a session has found so, and later ones rely on that
	sealUseless                   // new sessions have no seal
)

func (b *backend) seals() sealState { return sealState(b.sealing.Load()) }

func (b *backend) sealsAreUseful() { b.sealing.CompareAndSwap(int32(sealUntested), int32(sealUseful)) }

func (b *backend) sealsAreUseless() { b.sealing.Store(int32(sealUseless)) }

// errNoSeal: the servers do not enforce what a seal is for, or refuse its login.
var errNoSeal = errors.New("zookeeper: entries cannot be protected")

// openSealed opens a session with a seal. It returns errNoSeal if that is not useful. Then the caller
// opens a session whose connections do not log in with the seal: "auth" in an ACL would mean that
// login too.
func (b *backend) openSealed(ctx context.Context, cfg driver.Config) (*zkSession, error) {
	l := newSeal()
	s, err := b.open(ctx, cfg, l)
	switch {
	case errors.Is(err, driver.ErrDenied): // perhaps it is the login of the seal
		return nil, errNoSeal
	case err != nil:
		return nil, err
	case b.seals() == sealUseful:
		return s, nil
	}
	useful, err := l.isUseful(ctx, s)
	if useful {
		b.sealsAreUseful()
		return s, nil
	}
	ctx, stop := driver.WithTimeout(ctx, b.Info().Clock, time.Second)
	defer stop()
	_ = s.Close(ctx) // or it expires
	if err == nil {
		err = errNoSeal
	}
	return nil, err
}

// isUseful reports whether the servers enforce permissions, and whether the session may write
// what only the seal may write. The session's connection must have logged in with the seal.
//
//	may write a node for READ only   may write one for the seal   means                          useful
//	yes                                                           no permissions, or "super"     no
//	no                               no                           another digestAlg than SHA1    no
//	no                               yes                                                         yes
//	not known                                                     no node can be made            no
func (l *seal) isUseful(ctx context.Context, s *zkSession) (bool, error) {
	allowed, known, err := mayWrite(ctx, s, zk.WorldACL(zk.PermRead))
	if err != nil || !known || allowed {
		return false, err
	}
	allowed, _, err = mayWrite(ctx, s, []zk.ACL{l.acl})
	return allowed, err
}

// mayWrite reports whether the session may write a node with that ACL. It tries, by a
// transaction that makes a node, writes it and deletes it, so nothing stays. The node is in the
// root, or in a folder above it, because the root may not be there yet. If no node can be made,
// known is false.
func mayWrite(ctx context.Context, s *zkSession, acl []zk.ACL) (allowed, known bool, err error) {
	for folder := s.b.lay.root; ; folder, _ = split(folder) {
		path := folder + "/fairlock-" + random(guidLen/2)
		a, err := s.conn.Repeat(ctx, conn.Multi(create(path, nil, zk.FlagEphemeral, acl), setData(path, nil, -1), remove(path)))
		switch {
		case errors.Is(err, zk.ErrNoAuth) && a.Failed == 1:
			return false, true, nil
		case err == nil, errors.Is(err, zk.ErrNoAuth) && a.Failed == 2: // it may write, but not delete
			return true, true, nil
		case isClassified(err):
			return false, false, err
		case folder == "":
			return false, false, nil
		}
	}
}

// sealable reports whether a new entry is sealed where its session has a seal. Two kinds are not:
//
//   - A semaphore's request: its owner writes it while it is not the first of its queue, so a change
//     means nothing.
//   - An entry in the queue of a LeaderLatch: when the entry before its own changes, a Curator candidate
//     does nothing, and does not watch it again. So no entry there is ever written.
func (n entryName) sealable() bool { return n.mode != driver.Weighted && n.marker != markLatch }

// entryACL returns the ACL of sealed entries: the user's, without the permissions to write and
// to change the ACL, and the seal's.
func (l *seal) entryACL(acl []zk.ACL) []zk.ACL {
	var all []zk.ACL
	for _, a := range acl {
		a.Perms &^= zk.PermWrite | zk.PermAdmin
		if a.Perms != 0 {
			all = append(all, a)
		}
	}
	return append(all, l.acl)
}

// sealedACL returns Options.ACL for a session with a seal that began with these logins: see explicit.
func (b *backend) sealedACL(logins []Auth) []zk.ACL {
	if b.secrets.tls != nil { // a certificate is an identity too
		return b.opts.ACL
	}
	return explicit(b.opts.ACL, logins)
}

// explicit returns an ACL in which the user's logins replace "auth", if all of them are by
// password. "auth" means all logins of the connection, and in folders it must not mean the seal.
// The digests are right only on servers that compute them as the library does; on others a
// session has no seal.
func explicit(acl []zk.ACL, auth []Auth) []zk.ACL {
	plain := len(auth) > 0 && !slices.ContainsFunc(auth, func(a Auth) bool { return a.Scheme != "digest" })
	var all []zk.ACL
	for _, a := range acl {
		if a.Scheme != "auth" || !plain {
			all = append(all, a)
			continue
		}
		for _, login := range auth {
			user, password, _ := strings.Cut(string(login.Credentials), ":")
			all = append(all, zk.DigestACL(a.Perms, user, password)...)
		}
	}
	return all
}

// notice reports whether the release of an entry begins with the release notice: the entry is sealed,
// by this session, and was the first of its queue. Not if a server has refused a notice of this call:
// a quota, for example, refuses them all, and the waiters behind read instead.
func (l *leave) notice(p *leavePart) bool {
	return p.req.First && p.own != nil && p.name.sealed && l.s.seal != nil && !l.noNotice
}

// isRelease reports whether a change of the entry alone means that it was released. It does for a
// sealed entry, which only its owner writes, unless that is a candidate, which may have changed
// its value. An own entry is watched to find out that it is gone, and that takes more than a
// write, which an operator can make as "super".
func (w *nodeWatch) isRelease() bool {
	return w.name.sealed && !w.name.valued && w.own() == nil
}

// wasFirst reports whether an entry that is gone was first. It was written, and gone when the watch
// read it: only an entry that was first is written, also the value of a candidate.
func (w *nodeWatch) wasFirst() bool { return w.written && w.name.sealed }

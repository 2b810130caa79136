package zkbackend

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// seal is a login that only this session knows. It alone has the permission WRITE on the entries
// of the session, so no other client can write them.
//
// The session releases an entry that was the first of its queue by a transaction that writes the
// entry and deletes it. The watch of the waiter behind it then reports a change. A plain
// deletion, of a waiter that gives up or a session that expires, is reported as a deletion.
// (DataTree.processTxn applies the parts of a transaction one by one, and a watch fires once;
// seen on 3.8 and 3.9.) So from a change the waiter knows, without a read, that no entry is
// ahead. That would be wrong if other clients could write there, as Curator's Revoker does.
//
// A seal is useful only on servers that enforce permissions, which the first session tests.
// Without a seal, a waiter reads the queue when the entry ahead is gone.
type seal struct {
	auth conn.Auth
	acl  zk.ACL
}

func newSeal() *seal {
	user, password := "fairlock-"+random(8), random(16)
	return &seal{
		auth: conn.Auth{Scheme: "digest", Credentials: []byte(user + ":" + password)},
		acl:  zk.DigestACL(zk.PermRead|zk.PermWrite, user, password)[0],
	}
}

// entryACL returns the ACL of sealed entries: the user's, without the permissions to write and
// to change the ACL.
func (l *seal) entryACL(acl []zk.ACL) []zk.ACL {
	var all []zk.ACL
	for _, a := range acl {
		if a.Perms &^= zk.PermWrite | zk.PermAdmin; a.Perms != 0 {
			all = append(all, a)
		}
	}
	return append(all, l.acl)
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

// isUseful reports whether the servers enforce permissions, and whether the session may write
// what only the seal may write. It may not on servers with another digestAlg. The session's
// connection must have logged in with the seal.
func (l *seal) isUseful(ctx context.Context, s *zkSession) (bool, error) {
	allowed, known, err := mayWrite(ctx, s, zk.WorldACL(zk.PermRead))
	if err != nil || !known || allowed { // "super" is allowed everything
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

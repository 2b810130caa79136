package zkbackend

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// seal keeps everybody else from writing the entries of a session: a login that only this
// session knows, and that alone has the permission WRITE on them.
//
// An entry that was the first of its queue is released by a transaction that writes and
// deletes it. The watch of the waiter behind it then reports a change, where a plain
// deletion, of a waiter that gives up or a session that expires, is reported as a
// deletion (DataTree.processTxn applies the parts of a transaction one by one, and a
// watch fires once; seen on 3.8 and 3.9). So the waiter knows without a read that no
// entry is ahead. It would be wrong if others could write there: Curator's Revoker does.
//
// That takes servers that enforce permissions, which the first session tries out. Without a
// seal, a waiter reads the queue when the entry ahead is gone.
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

// entryACL returns the ACL of sealed entries: what the user wants, without the permission
// to write or to change that.
func (l *seal) entryACL(acl []zk.ACL) []zk.ACL {
	var all []zk.ACL
	for _, a := range acl {
		if a.Perms &^= zk.PermWrite | zk.PermAdmin; a.Perms != 0 {
			all = append(all, a)
		}
	}
	return append(all, l.acl)
}

// explicit returns an ACL in which "auth", all identities of the connection, is replaced
// by the logins that the user gave, as far as they are by password: a connection with a
// seal shows one more, which must not get into folders. The digests are right only on
// servers that compute them as the library does. A session has a seal on no others.
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

// isUseful reports whether the servers enforce permissions, and whether the session may
// write what only the seal may write: servers with another digestAlg do not know the seal by
// the digest that is computed here. The session's connection shows the seal.
func (l *seal) isUseful(ctx context.Context, s *zkSession) (bool, error) {
	denied, err := s.mayWrite(ctx, zk.WorldACL(zk.PermRead))
	if err != nil || denied != writeDenied { // allowed if the user is "super"
		return false, err
	}
	allowed, err := s.mayWrite(ctx, []zk.ACL{l.acl})
	return allowed == writeAllowed, err
}

// writing is what mayWrite finds out.
type writing int

const (
	writeUnknown writing = iota // no node could be made
	writeAllowed
	writeDenied
)

// mayWrite asks whether the session may write a node with that ACL, by a transaction that
// makes one, writes it and deletes it. Nothing of it stays.
func (s *zkSession) mayWrite(ctx context.Context, acl []zk.ACL) (writing, error) {
	for _, folder := range []string{s.b.lay.root, ""} {
		path := folder + "/fairlock-" + random(guidLen/2)
		a, err := s.conn.Repeat(ctx, conn.Multi(create(path, nil, zk.FlagEphemeral, acl), setData(path, nil, -1), remove(path)))
		switch {
		case errors.Is(err, zk.ErrNoAuth) && a.Failed == 1:
			return writeDenied, nil
		case err == nil, errors.Is(err, zk.ErrNoAuth) && a.Failed == 2: // the delete is another permission
			return writeAllowed, nil
		case isClassified(err):
			return writeUnknown, err
		}
	}
	return writeUnknown, nil
}

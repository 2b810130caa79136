package concurrency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	v3 "go.etcd.io/etcd/client/v3"
	etcd "go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// The errors of an Election are those of etcd's package.
var (
	ErrElectionNotLeader = etcd.ErrElectionNotLeader
	ErrElectionNoLeader  = etcd.ErrElectionNoLeader
)

// Election is an election of a leader. It is safe for concurrent use. A session leads, not an
// Election: those of one session and prefix share the leadership.
type Election struct {
	s   *Session
	pfx string // with a slash at the end

	mu   sync.Mutex // guards what follows
	lead *candidacy // nil: the Election does not lead
	hdr  *pb.ResponseHeader
}

// candidacy is a leadership of a session, from the grant on. It never changes.
type candidacy struct {
	key  string
	rev  int64         // the create revision of the key
	hold *session.Hold // nil: an earlier process, or another Session, has campaigned
}

// NewElection returns the election of that prefix. Its keys begin with the prefix and a slash.
func NewElection(s *Session, pfx string) *Election { return &Election{s: s, pfx: pfx + "/"} }

// ResumeElection returns an election that leads already, with a key of that create revision. As
// in etcd's package, pfx is what keys begin with, with the slash at its end, which is added if it
// is missing.
func ResumeElection(s *Session, pfx string, leaderKey string, leaderRev int64) *Election {
	if !strings.HasSuffix(pfx, "/") {
		pfx += "/"
	}
	e := &Election{s: s, pfx: pfx, lead: &candidacy{key: leaderKey, rev: leaderRev}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.leads {
		if c.key == leaderKey && c.rev == leaderRev {
			e.lead = c
		}
	}
	return e
}

// election is the recipe below.
func (e *Election) election() *election.Election {
	return election.New(e.s.fair, strings.TrimSuffix(e.pfx, "/"))
}

// Campaign waits until the session leads. If it does already, by another Election or because the
// lease was taken over from a leader (WithLease), Campaign replaces the value and returns. It ends
// with ctx and with the session as Mutex.Lock does, and leaves nothing behind after an error; a
// lost session is both ErrElectionNotLeader and ErrSessionExpired then.
func (e *Election) Campaign(ctx context.Context, val string) error {
	c, err := e.leading(ctx)
	if err != nil {
		return e.failed(err)
	}
	if c != nil {
		e.set(c, nil)
		err := e.Proclaim(ctx, val)
		if !errors.Is(err, ErrElectionNotLeader) {
			return err
		}
		e.s.quit(c) // it has ended, and the session campaigns again
	}
	h, err := e.election().Campaign(ctx, val)
	if err != nil {
		return e.failed(err)
	}
	if !e.s.add(h) {
		return e.failed(ErrSessionExpired)
	}
	c = &candidacy{key: keyOf(h), rev: int64(h.Token()), hold: h}
	hdr, err := e.s.read(ctx, h, c.key, c.rev)
	if err != nil {
		_ = e.s.release(h)
		return e.failed(err)
	}
	e.s.remember(e.pfx, c)
	e.set(c, hdr)
	return nil
}

// leading returns the leadership of the session, nil if there is none.
func (e *Election) leading(ctx context.Context) (*candidacy, error) {
	kv, err := e.s.clear(ctx, e.pfx, true)
	if err != nil {
		return nil, err
	}
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if kv != nil {
		e.s.leads[e.pfx] = &candidacy{key: string(kv.Key), rev: kv.CreateRevision}
	}
	return e.s.leads[e.pfx], nil
}

// failed returns the error of a campaign.
func (e *Election) failed(err error) error {
	err = e.s.failed(err)
	if errors.Is(err, ErrSessionExpired) {
		return fmt.Errorf("%w: %w", ErrElectionNotLeader, err)
	}
	return err
}

// set records that the Election leads, or with nil that it does not. hdr may be nil.
func (e *Election) set(c *candidacy, hdr *pb.ResponseHeader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lead = c
	if hdr != nil {
		e.hdr = hdr
	}
}

// leadership returns what the Election leads with, nil if it does not.
func (e *Election) leadership() *candidacy {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lead
}

// Proclaim replaces the value of the leader. It returns ErrElectionNotLeader if the session does
// not lead, or leads no more.
func (e *Election) Proclaim(ctx context.Context, val string) error {
	c := e.leadership()
	if c == nil {
		return ErrElectionNotLeader
	}
	var hdr *pb.ResponseHeader
	if c.hold != nil {
		err := e.election().Proclaim(ctx, c.hold, val)
		switch {
		case errors.Is(err, session.ErrLost), errors.Is(err, session.ErrUnlocked), errors.Is(err, session.ErrNotLeader), errors.Is(err, session.ErrClosed):
			e.set(nil, nil)
			return ErrElectionNotLeader
		case err != nil:
			return err
		}
		hdr, _ = e.s.read(ctx, c.hold, c.key, c.rev) // the value is there, also without the header
	} else {
		resp, err := e.s.client.Txn(ctx).If(v3.Compare(v3.CreateRevision(c.key), "=", c.rev)).Then(v3.OpPut(c.key, val, v3.WithLease(e.s.id))).Commit()
		switch {
		case err != nil:
			return err
		case !resp.Succeeded:
			e.set(nil, nil)
			return ErrElectionNotLeader
		}
		hdr = resp.Header
	}
	e.set(c, hdr)
	return nil
}

// Resign ends the leadership. It does not use ctx: it waits for at most a second, and then the
// session goes on in the background. Only for a leadership that an earlier process has begun it
// makes one request with ctx, and after an error of that the Election still leads.
func (e *Election) Resign(ctx context.Context) error {
	c := e.leadership()
	if c == nil {
		return nil
	}
	if c.hold == nil {
		resp, err := e.s.client.Txn(ctx).If(v3.Compare(v3.CreateRevision(c.key), "=", c.rev)).Then(v3.OpDelete(c.key)).Commit()
		if err != nil {
			return err
		}
		e.set(c, resp.Header)
	}
	e.s.quit(c)
	e.set(nil, nil)
	return nil
}

// Leader returns the first key of the election, or ErrElectionNoLeader.
func (e *Election) Leader(ctx context.Context) (*v3.GetResponse, error) {
	resp, err := e.s.client.Get(ctx, e.pfx, v3.WithFirstCreate()...)
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) == 0 {
		return nil, ErrElectionNoLeader
	}
	return resp, nil
}

// Key returns the key of the leader if the Election leads, else "".
func (e *Election) Key() string {
	c := e.leadership()
	if c == nil {
		return ""
	}
	return c.key
}

// Rev returns the create revision of that key, which is the fencing token, or 0.
func (e *Election) Rev() int64 {
	c := e.leadership()
	if c == nil {
		return 0
	}
	return c.rev
}

// Header returns the header of the last answer to a Campaign, Proclaim or Resign.
func (e *Election) Header() *pb.ResponseHeader {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hdr
}

// Hold returns the hold of the leadership: its context ends when the leadership is lost, and its
// token is the fencing token. It is nil if the Election does not lead, and for a leadership that
// an earlier process has begun: there only the context of the session ends.
func (e *Election) Hold() *session.Hold {
	c := e.leadership()
	if c == nil {
		return nil
	}
	return c.hold
}

// remember makes a leadership that of the session.
func (s *Session) remember(pfx string, c *candidacy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads[pfx] = c
}

// quit ends a leadership of the session. Its prefix can be another one than that of a resumed
// Election.
func (s *Session) quit(c *candidacy) {
	if c.hold != nil {
		_ = s.release(c.hold) // it is over in any case: lost, released, or about to be
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.leads, func(_ string, other *candidacy) bool { return other == c })
}

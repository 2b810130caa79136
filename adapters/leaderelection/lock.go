package fairleaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// Lock is a resourcelock.Interface whose record is the head of the queue of an election: a candidate
// can write itself into the record only when the service has made it the leader, and stays there
// until Close, or until the leadership is lost. So no candidate takes the record from another one
// because of a clock. LeaseDuration and RenewDeadline of the elector mean nothing: the TTL of
// the session does.
//
// A Lock is for one run of one elector, with a context of Lock.Context: with another one it returns
// errors, because the elector alone notices a loss only when RenewDeadline has passed. The work of
// OnStartedLeading must return soon after its context has ended: the next leader does not wait for it
// after a loss. LeaderElector.IsLeader notices a loss late; election.Election.IsLeader reads the clock.
type Lock struct {
	e        *election.Election
	identity string
	health   HealthzAdaptor
	once     func() error // close, once

	over    context.Context // ends when this candidate can lead no longer, with the reason
	end     context.CancelCauseFunc
	decided context.Context // ends when h is set, or over has ended
	decide  context.CancelFunc
	h       *session.Hold // nil if the campaign failed
	ended   chan struct{} // closed when h is over and unlocked

	mu     sync.Mutex
	leave  context.CancelFunc                 // ends the wait; nil before the first Get
	seen   string                             // the leader that Get returned last
	record *resourcelock.LeaderElectionRecord // what the elector wrote as the leader; nil before
}

var _ resourcelock.Interface = (*Lock)(nil)

// NewLock returns the Lock of a candidate. identity is what others learn of it as the leader.
func NewLock(e *election.Election, identity string) *Lock {
	l := &Lock{e: e, identity: identity, ended: make(chan struct{})}
	l.once = sync.OnceValue(l.close)
	l.over, l.end = context.WithCancelCause(context.Background())
	l.decided, l.decide = context.WithCancel(context.Background())
	return l
}

// ofLock is a context of Lock.Context. It has the values of the hold, once there is one.
type ofLock struct {
	context.Context
	l *Lock
}

// lockKey is the key of a context's Lock.
type lockKey struct{}

func (c ofLock) Value(key any) any {
	if key == (lockKey{}) {
		return c.l
	}
	if c.l.decided.Err() != nil && c.l.h != nil {
		value := context.WithoutCancel(c.l.h.Context()).Value(key) // without what package context keeps there
		if value != nil {
			return value
		}
	}
	return c.Context.Value(key)
}

// Context returns the context with which to run the elector, or the host that has it. It ends with
// ctx, when the leadership is lost, and with Close. While this candidate leads, and after that, it
// has the hold: session.TokenFrom returns the token in OnStartedLeading and below.
func (l *Lock) Context(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.over, func() { cancel(context.Cause(l.over)) })
	context.AfterFunc(ctx, func() { stop() })
	return ofLock{ctx, l}
}

// WatchDog returns the health check of the candidate, which fails from a loss of the leadership to
// Close.
func (l *Lock) WatchDog() *HealthzAdaptor { return &l.health }

// Get returns the record of the leader. While this candidate waits, Get blocks until there is
// another leader than that of the call before, or until this candidate leads and may Create the
// record. The first Get joins the queue, and the end of its ctx leaves it.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	err := l.join(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("fairleaderelection: %q: %w", l.e.Name(), err)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(l.decided, cancel) //nolint:contextcheck // the grant ends the wait too
	defer stop()
	if l.decided.Err() != nil {
		cancel() // so that nothing is sent
	}
	for leader, err := range l.e.Observe(waiting) {
		raw := leader.Entry.Key + " " + leader.Value
		switch {
		case l.decided.Err() != nil:
		case err != nil:
			return nil, nil, fmt.Errorf("fairleaderelection: %w", err)
		case leader.Vacant() || leader.Value == l.identity || raw == l.seen:
			// Its own entry comes before the grant. An equal identity of another process must not
			// look like its own.
		default:
			l.seen = raw
			granted := metav1.NewTime(leader.Entry.Granted)
			return &resourcelock.LeaderElectionRecord{HolderIdentity: leader.Value, LeaseDurationSeconds: 1, AcquireTime: granted, RenewTime: granted}, []byte(raw), nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.leads()
	switch {
	case err != nil:
		return nil, nil, err
	case l.record == nil:
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Group: "fairlock", Resource: "elections"}, l.e.Name())
	}
	record := *l.record
	return &record, []byte(l.identity), nil
}

// join begins to campaign, unless the candidate has done so.
func (l *Lock) join(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.leave != nil:
		return nil
	case l.over.Err() != nil:
		return context.Cause(l.over) //nolint:contextcheck // it is asked why it has ended
	case ctx.Value(lockKey{}) != l:
		return errors.New("run the elector, or the host that has it, with a context of Lock.Context")
	}
	ctx, l.leave = context.WithCancel(ctx)
	go l.campaign(ctx)
	return nil
}

// campaign waits for the leadership until ctx ends, and then for the end of the leadership.
func (l *Lock) campaign(ctx context.Context) {
	defer close(l.ended)
	// ctx has the values of the hold, so the hold must not have those of ctx.
	campaigning, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	h, err := l.e.Campaign(campaigning, l.identity) //nolint:contextcheck // it ends with ctx
	if err != nil {
		if ctx.Err() != nil {
			err = session.ErrReleased // it was not needed any more
		}
		l.end(err)
		l.decide()
		return
	}
	l.h = h
	l.decide()
	select {
	case <-ctx.Done(): // the elector leads, or has ended
		l.resign()
	case <-h.Context().Done():
	}
	<-h.Context().Done()
	l.end(context.Cause(h.Context())) //nolint:contextcheck // it is asked why it has ended
	_ = h.Unlock()                    // cleans up after a loss
}

// resign gives up the leadership if the elector has not used it.
func (l *Lock) resign() {
	l.mu.Lock()
	unused := l.record == nil
	if unused {
		l.end(session.ErrReleased) // so that it cannot
	}
	l.mu.Unlock()
	if unused {
		_ = l.h.Unlock()
	}
}

// leads returns nil if this candidate leads.
func (l *Lock) leads() error {
	switch {
	case l.over.Err() != nil:
		return fmt.Errorf("fairleaderelection: %w", context.Cause(l.over))
	case l.decided.Err() == nil:
		return fmt.Errorf("fairleaderelection: %q: %w", l.e.Name(), session.ErrNotLeader)
	case l.h.Remaining() <= 0:
		return fmt.Errorf("fairleaderelection: %q: %w", l.e.Name(), session.ErrLost)
	}
	return nil
}

// Create writes the record of the leader. It fails if this candidate does not lead. It sends nothing:
// the entry in the queue shows the leader.
func (l *Lock) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.leads()
	if err != nil || r.HolderIdentity == "" { // as with ReleaseOnCancel, before OnStoppedLeading: Close releases
		return err
	}
	l.record = &r
	l.health.h.Store(l.h)
	return nil
}

// Update is Create.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Create(ctx, r)
}

// RecordEvent does nothing.
func (l *Lock) RecordEvent(string) {}

// Identity returns the identity of the candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe returns how the elector calls the Lock in its log.
func (l *Lock) Describe() string { return "fairlock/" + l.e.Name() }

// Close resigns, or leaves the queue. Call it when the elector has returned and all work of the
// leader has ended, and before Session.Close. Until then no other candidate leads, with or without
// ReleaseOnCancel. If the leadership was lost, the error is session.ErrLost, and if the campaign had
// ended because waiting cannot help, it is the reason. Further calls return the same.
func (l *Lock) Close() error { return l.once() }

func (l *Lock) close() error {
	l.mu.Lock()
	l.end(session.ErrReleased)
	joined := l.leave != nil
	l.mu.Unlock()
	l.health.h.Store(nil)
	err := context.Cause(l.over)
	if errors.Is(err, session.ErrReleased) {
		err = nil
	}
	if !joined {
		return err
	}
	l.leave()
	<-l.decided.Done()
	if l.h != nil {
		lost := errors.Join(l.h.Unlock(), context.Cause(l.h.Context())) // campaign may have unlocked before
		if err == nil && errors.Is(lost, session.ErrLost) {
			err = lost
		}
	}
	<-l.ended
	return err
}

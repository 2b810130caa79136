package recipetest

import (
	"context"
	"testing"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/next/driver"
	"github.com/fairlock/fairlock/next/drivertest"
	old "github.com/fairlock/fairlock/session/driver"
	oldtest "github.com/fairlock/fairlock/session/drivertest"
)

// FromOld returns the harness of a backend of the old contract as this package sees it.
func FromOld(h oldtest.Harness) drivertest.Harness {
	return drivertest.Harness{
		TTL: h.TTL, Calm: h.Calm, Virtual: h.Virtual, Parallel: h.Parallel, Prompt: h.Prompt, Leaks: h.Leaks,
		NoUnleased: h.NoUnleased, Renewal: h.Proof, Try: h.Try, Topics: h.Topics, Replicated: h.Replicated, Undone: h.Undone,
		Service: func(t *testing.T) drivertest.Service { return oldService{h.Service(t)} },
	}
}

// oldService is a service with a backend of the old contract.
type oldService struct{ oldtest.Service }

func (s oldService) Client(t *testing.T) drivertest.Client { return oldClient{s.Service.Client(t)} }

func (s oldService) Delete(t *testing.T, ref driver.Ref) { s.Service.Delete(t, door.RefToOld(ref)) }

func (s oldService) PutForeign(t *testing.T, queue string, leased bool) driver.Ref {
	return door.RefFromOld(s.Service.PutForeign(t, queue, leased))
}

func (s oldService) Overwrite(t *testing.T, ref driver.Ref, value []byte) {
	s.Service.Overwrite(t, door.RefToOld(ref), value)
}

// oldClient is a client with a backend of the old contract.
type oldClient struct{ oldtest.Client }

func (c oldClient) Backend() driver.Backend { return door.FromOld(c.Client.Backend()) }

// oldLeaving is leaving of the old contract.
type oldLeaving struct {
	old.Backend
	refuse func(queue string) error
}

// Open implements driver.Backend.
func (l oldLeaving) Open(ctx context.Context, cfg old.Config) (old.Session, error) {
	s, err := l.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return oldLeavingSession{s, l.refuse}, nil
}

type oldLeavingSession struct {
	old.Session
	refuse func(queue string) error
}

// Leave implements driver.Session.
func (l oldLeavingSession) Leave(ctx context.Context, req old.LeaveRequest) (old.Left, error) {
	if err := l.refuse(req.Ref.Line); err != nil {
		return old.Left{}, err
	}
	return l.Session.Leave(ctx, req)
}

// Package memstand runs fairlock on membackend, with no server and no peer. There the work of
// the library itself is measured.
package memstand

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

// Service returns membackend.
func Service() stand.Service {
	all := stand.Contestants("", "")
	var ours []stand.Contestant
	for _, c := range all {
		if c.Ours {
			ours = append(ours, c)
		}
	}
	return stand.Service{Name: "membackend", Contestants: ours, Attach: attach}
}

// ttl is the TTL of all sessions.
const ttl = time.Minute

// store is a store, and a session that reads queues.
type store struct {
	*membackend.Store
	control *session.Session
}

var _ stand.Stand = (*store)(nil)

func attach(ctx context.Context, _ stand.Addresses) (stand.Stand, error) {
	m := membackend.New()
	control, err := m.Open(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &store{m, control}, nil
}

// Open implements stand.Stand. Requests are not counted.
func (m *store) Open(ctx context.Context, contestant stand.Contestant, n, _ int) (*stand.Team, error) {
	return stand.NewTeam(contestant, n, !contestant.Alone, stand.Parts{
		Tallies: []*stand.Tally{stand.NewTally(nil)},
		QueueOf: func(name string) string { return name },
		Busy:    func() bool { return false },
		Session: func(int) (stand.Contender, func() error, error) {
			o := contestant.Options(ttl)
			s, err := m.Store.Open(ctx, &o)
			if err != nil {
				return nil, nil, err
			}
			return stand.Of(s), s.Close, nil
		},
		Stop: stand.StopByClose,
	})
}

// Length implements stand.Stand.
func (m *store) Length(ctx context.Context, queue string) (int, error) {
	entries, err := m.control.Queue(ctx, queue)
	return len(entries), err
}

// Fill implements stand.Stand. It returns an error, because there is no peer.
func (m *store) Fill(_ context.Context, queue string, n int) error {
	if n > 0 {
		return fmt.Errorf("%d entries without an owner in %q: membackend has none", n, queue)
	}
	return nil
}

// Clear implements stand.Stand. Nothing is left in a queue here.
func (m *store) Clear(context.Context, string) error { return nil }

// Close implements stand.Stand.
func (m *store) Close() error { return m.control.Close() }

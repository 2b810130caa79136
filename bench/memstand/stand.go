// Package memstand has fairlock run on membackend, with no server and no peer: what is
// measured there is the work of the library itself.
package memstand

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

// Service is membackend.
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

// ttl is everybody's.
const ttl = time.Minute

// store is a store, and a session that looks at lines from the side.
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

// Open implements stand.Stand. What sessions send is not counted.
func (m *store) Open(ctx context.Context, who stand.Contestant, n, _ int) (*stand.Team, error) {
	return stand.NewTeam(who, n, !who.Alone, stand.Parts{
		Tallies: []*stand.Tally{stand.NewTally(nil)},
		Line:    func(name string) string { return name },
		Busy:    func() bool { return false },
		Session: func(int) (stand.Contender, func() error, error) {
			o := who.Options(ttl)
			s, err := m.Store.Open(ctx, &o)
			if err != nil {
				return nil, nil, err
			}
			return stand.Of(s), s.Close, nil
		},
		Home: stand.EndOfSession,
	})
}

// Length implements stand.Stand.
func (m *store) Length(ctx context.Context, line string) (int, error) {
	entries, err := m.control.Queue(ctx, line)
	return len(entries), err
}

// Fill implements stand.Stand. There is no peer whose entries these could be.
func (m *store) Fill(_ context.Context, line string, n int) error {
	if n > 0 {
		return fmt.Errorf("%d entries without an owner in %q: membackend has none", n, line)
	}
	return nil
}

// Clear implements stand.Stand. Nothing is left of an entry here.
func (m *store) Clear(context.Context, string) error { return nil }

// Close implements stand.Stand.
func (m *store) Close() error { return m.control.Close() }

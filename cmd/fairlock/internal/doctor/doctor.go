package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/schema"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// reads is how many round trips are measured.
const reads = 9

// Examine looks at the service and at all lines, or, of a name that is not empty,
// only at what concerns it, and gives each finding to f as it is found. A service
// that cannot be used is a finding too: the error is for what keeps it from going
// on.
func Examine(ctx context.Context, t *connect.Target, name string, f func(schema.Finding)) error {
	switch t.Address.Service {
	case address.Etcd:
		each(Etcd(ctx, t), f)
	case address.ZooKeeper:
		each(ZooKeeper(ctx, t), f)
	}
	now := driver.SystemClock().Now
	began := now()
	s, err := t.Open(ctx, session.Options{})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		f(schema.NewFinding(connection, schema.Bad, err.Error()))
		return nil
	}
	defer func() { _ = s.Close() }()
	f(schema.NewFinding(connection, schema.Good, fmt.Sprintf("a session on %s was opened in %s", t.Address, short(now().Sub(began)))))
	if err = measure(ctx, s, f); err != nil {
		return err
	}
	return lines(ctx, s, name, f)
}

func each(all []schema.Finding, f func(schema.Finding)) {
	for _, x := range all {
		f(x)
	}
}

// measure reads a line that is nobody's.
func measure(ctx context.Context, s *session.Session, f func(schema.Finding)) error {
	var took []time.Duration
	inner := session.Engine(door.Key{}).Of(s)
	for range reads {
		began := inner.Clock().Now()
		if _, err := inner.List(ctx, "fairlock/doctor", 1); err != nil {
			return err
		}
		took = append(took, inner.Clock().Now().Sub(began))
	}
	o := s.Options()
	f(RoundTrip(took, o.TTL, o.Margin))
	return nil
}

// lines examines what stands in lines. Deadlocks go through all of them, so all
// are read, twice.
func lines(ctx context.Context, s *session.Session, name string, f func(schema.Finding)) error {
	first, err := inspect.ReadAll(ctx, s, "")
	if err != nil {
		return err
	}
	second, err := inspect.ReadAll(ctx, s, "")
	if err != nil {
		return err
	}
	of := second
	if name != "" {
		of = slices.DeleteFunc(slices.Clone(second), func(l schema.Line) bool { return l.Name != name })
	}
	each(Clocks(of, session.Engine(door.Key{}).Of(s).Clock().Wall()), f)
	each(Entries(of), f)
	each(Tokens(of), f)
	each(Deadlocks(first, second), f)
	return nil
}

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// reads is how many round trips are measured.
const reads = 9

// Examine looks at the service and at all queues, or, of a name that is not empty,
// only at what concerns it. It calls say before each part, and f with each finding.
// A service that cannot be used is a finding too: the error is for what keeps
// Examine from going on.
func Examine(ctx context.Context, t *connect.Target, name string, say func(string), f func(schema.Finding)) error {
	say("asking the servers how they are")
	var servers []schema.Finding
	switch t.Address.Service {
	case address.Etcd:
		servers = Etcd(ctx, t)
	case address.ZooKeeper:
		servers = ZooKeeper(ctx, t)
	}
	// Where no server answers, the error of the session says so of all of them.
	silent := len(servers) > 0 && !slices.ContainsFunc(servers, func(f schema.Finding) bool { return f.Check != connection })
	if !silent {
		each(servers, f)
	}
	say("opening a session")
	now := driver.SystemClock().Now
	began := now()
	s, err := t.Open(ctx, session.Options{})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		f(schema.NewFinding(connection, schema.Bad, err.Error()))
		f(notMade(t.Address.Service, silent))
		return nil
	}
	if silent { // the service began to answer meanwhile
		each(servers, f)
	}
	defer func() { _ = s.Close() }()
	f(schema.NewFinding(connection, schema.Good, fmt.Sprintf("a session on %s was opened in %s", t.Address, short(now().Sub(began)))))
	say("measuring round trips")
	if err = measure(ctx, s, f); err != nil {
		return err
	}
	say("reading all queues")
	return lines(ctx, s, name, f)
}

// notMade is the finding that names the checks which need a session.
func notMade(service string, silent bool) schema.Finding {
	left := []string{roundTrip, clock, entries, tokens, deadlock}
	if silent && service != address.Memory {
		left = append([]string{alarms}, left...)
	}
	return schema.NewFinding(skipped, schema.Warn, "without a connection these checks were not made: "+strings.Join(left, ", "))
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
		if _, err := inner.Read(ctx, driver.ReadRequest{Queue: "fairlock/doctor", Nearest: 1, Detail: true}); err != nil {
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

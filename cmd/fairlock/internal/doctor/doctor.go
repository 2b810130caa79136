package doctor

import (
	"context"
	"errors"
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

// Examine examines the service and all queues, or if name is not empty, the queue of that
// lock and the deadlocks of all. It calls progress before each part, and f with each
// finding. A service that cannot be used is a finding; an error means that Examine
// could not go on.
func Examine(ctx context.Context, t *connect.Target, name string, progress func(string), f func(schema.Finding)) error {
	progress("asking the servers for their status")
	var servers []schema.Finding
	switch t.Address.Service {
	case address.Etcd:
		servers = Etcd(ctx, t)
	case address.ZooKeeper:
		servers = ZooKeeper(ctx, t)
	case address.Postgres:
		servers = Postgres(ctx, t)
	case address.Redis:
		servers = Redis(ctx, t)
	}
	// If no server answers, the error of the session reports that for all of them.
	silent := len(servers) > 0 && !slices.ContainsFunc(servers, func(f schema.Finding) bool { return f.Check != connection })
	if !silent {
		each(servers, f)
	}
	if slices.ContainsFunc(servers, unused) { // a session would begin to wait, and so to use it
		f(skippedChecks(t.Address.Service, silent))
		return nil
	}
	progress("opening a session")
	now := driver.SystemClock().Now
	began := now()
	s, err := t.Open(ctx, connect.ForTools(session.Options{}))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		f(schema.NewFinding(connection, schema.Bad, err.Error()))
		f(skippedChecks(t.Address.Service, silent))
		return nil
	}
	if silent { // the service began to answer meanwhile
		each(servers, f)
	}
	defer func() { _ = s.Close() }()
	h := s.Health()
	if h.Ready {
		f(schema.NewFinding(connection, schema.Good, fmt.Sprintf("a session on %s was opened in %s", t.Address, short(now().Sub(began)))))
	} else {
		f(schema.NewFinding(connection, schema.Bad, "no lock can be acquired: "+h.Err.Error()))
	}
	if t.Address.Service != address.Postgres && t.Address.Service != address.Redis { // there it depends on the other servers
		f(keepsFinding(session.Engine(door.Key{}).Of(s).Info().Keeps, ""))
	}
	progress("measuring round trips")
	err = measure(ctx, s, f)
	if err != nil {
		return err
	}
	progress("reading all queues")
	return queues(ctx, s, name, f)
}

// skippedChecks is the finding that names the checks that need a session.
func skippedChecks(service string, silent bool) schema.Finding {
	left := []string{roundTrip, clock, entries, tokens, deadlock}
	switch {
	case service == address.Postgres && silent:
		left = append([]string{alarms, keeps, tables}, left...)
	case service == address.Redis && silent:
		left = append([]string{alarms, keeps, root}, left...)
	case service == address.Postgres, service == address.Redis:
	case silent && service != address.Memory:
		left = append([]string{alarms, keeps}, left...)
	default:
		left = append([]string{keeps}, left...)
	}
	return schema.NewFinding(skipped, schema.Warn, "without a connection these checks were not made: "+strings.Join(left, ", "))
}

func each(all []schema.Finding, f func(schema.Finding)) {
	for _, x := range all {
		f(x)
	}
}

// measure measures the round trip by reads of a queue that no lock uses.
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

// queues examines the entries in queues. A deadlock can involve any queue, so it reads
// all, twice.
func queues(ctx context.Context, s *session.Session, name string, f func(schema.Finding)) error {
	first, err := inspect.ReadAll(ctx, s, "")
	_, some := errors.AsType[*inspect.Unreadable](err)
	if err != nil && !some {
		return err
	}
	second, err := inspect.ReadAll(ctx, s, "")
	_, some = errors.AsType[*inspect.Unreadable](err)
	switch {
	case some:
		f(schema.NewFinding(entries, schema.Bad, err.Error()))
	case err != nil:
		return err
	}
	of := second
	if name != "" {
		of = slices.DeleteFunc(slices.Clone(second), func(l schema.Queue) bool { return l.Name != name })
	}
	each(Clocks(of, session.Engine(door.Key{}).Of(s).Clock().Wall()), f)
	each(Entries(of), f)
	each(Tokens(of), f)
	each(Deadlocks(first, second), f)
	return nil
}

// Package stand defines the test stand on which the measurements run: contestants that lock
// on running servers, and counts of what their clients send. Each service has a package of
// its own that implements it. Those packages use only what users of fairlock use, so that
// they compile with earlier versions of it.
package stand

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Service is a kind of servers on which locks are compared.
type Service struct {
	Name        string // for people
	Peer        string // the lock that ships with its client
	Contestants []Contestant

	// Attach returns a Stand on running servers.
	Attach func(ctx context.Context, at Addresses) (Stand, error)
}

// Addresses are the addresses of running servers.
type Addresses struct {
	Clients []string // for contenders; of proxies, if a round trip is added
	Direct  []string // for the stand itself
}

// A Stand runs contestants on running servers. The requests of its other methods are not
// counted.
type Stand interface {
	// Open opens n contenders and their clients: at most so many clients, where a client
	// can have several sessions.
	Open(ctx context.Context, c Contestant, n, clients int) (*Team, error)

	// Length returns the number of entries in a queue.
	Length(ctx context.Context, queue string) (int, error)

	// Fill adds n entries of the peer's kind at the end of a queue. They have no waiters,
	// but the servers do not see that.
	Fill(ctx context.Context, queue string, n int) error

	// Clear deletes the entries of a queue without waiters.
	Clear(ctx context.Context, queue string) error

	// Close closes the stand. The servers go on running.
	Close() error
}

// Connected is a Stand whose contestants are compared by their connections too.
type Connected interface {
	// Connections returns how many connections all clients have together.
	Connections(ctx context.Context) (int, error)
}

// Processors is a Stand that can see how much processor time its servers use. Other programs disturb
// this figure less than they disturb the time that a request takes.
type Processors interface {
	// ServerTime returns the processor time that the servers have spent on clients that are still
	// connected, 0 if this system does not show it. The requests of the stand itself do not count.
	ServerTime(ctx context.Context) (time.Duration, error)
}

// Metered is a Stand whose servers count what they do.
type Metered interface {
	// Spent returns what the servers have done for all clients since they were started.
	Spent(ctx context.Context) (Spent, error)
}

// Spent is what servers have done.
type Spent struct {
	Commands int64
	CPU      time.Duration
}

// Since returns the difference to an earlier Spent.
func (s Spent) Since(earlier Spent) Spent {
	return Spent{s.Commands - earlier.Commands, s.CPU - earlier.CPU}
}

// SpentOn returns what the servers of a stand have done, zero if they do not count it.
func SpentOn(ctx context.Context, s Stand) (Spent, error) {
	m, counts := s.(Metered)
	if !counts {
		return Spent{}, nil
	}
	return m.Spent(ctx) //nolint:wrapcheck // it is of this module
}

// ConnectionsOf returns how many connections all clients of a stand have, 0 if it does not count them.
func ConnectionsOf(ctx context.Context, s Stand) (int, error) {
	c, counts := s.(Connected)
	if !counts {
		return 0, nil
	}
	return c.Connections(ctx) //nolint:wrapcheck // it is of this module
}

// Snapshots is a Stand on servers that keep what an open snapshot can see.
type Snapshots interface {
	// Snapshot opens a snapshot, which stays open until the stand is closed.
	Snapshot(ctx context.Context) error
}

// A Kind is a kind of cluster to measure on: one of the constants below, or one of them
// with a round trip added to the network, such as "three+4ms".
type Kind string

// The kinds without an added round trip.
const (
	Single      Kind = "single"       // one member that does not wait for the disk
	SingleFsync Kind = "single-fsync" // one member that waits for the disk, the servers' default
	Two         Kind = "two"          // of PostgreSQL, a primary and a synchronous standby
	TwoFsync    Kind = "two-fsync"
	Three       Kind = "three"
	ThreeFsync  Kind = "three-fsync"
)

// Kinds returns the kinds without an added round trip.
func Kinds() []Kind { return []Kind{Single, SingleFsync, Two, TwoFsync, Three, ThreeFsync} }

// ParseKind parses the name of a kind.
func ParseKind(text string) (Kind, error) {
	k := Kind(strings.TrimSpace(text))
	base, rtt, far := strings.Cut(string(k), "+")
	if !slices.Contains(Kinds(), Kind(base)) {
		return "", fmt.Errorf("%q is none of %s, with or without a round trip such as \"+4ms\"", k, Names())
	}
	d, err := time.ParseDuration(rtt)
	if far && (err != nil || d <= 0) {
		return "", fmt.Errorf("%q does not end with a time", k)
	}
	return k, nil
}

// Names returns the names of the kinds as one text.
func Names() string {
	names := make([]string, len(Kinds()))
	for i, k := range Kinds() {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Far returns the same kind with a round trip added.
func (k Kind) Far(rtt time.Duration) Kind { return k + Kind("+"+rtt.String()) }

// Members returns the number of servers.
func (k Kind) Members() int {
	switch {
	case strings.HasPrefix(string(k), string(Three)):
		return 3
	case strings.HasPrefix(string(k), string(Two)):
		return 2
	}
	return 1
}

// Fsync reports whether the servers wait for the disk.
func (k Kind) Fsync() bool { return strings.Contains(string(k), "-fsync") }

// RTT returns the round trip that is added between clients and servers.
func (k Kind) RTT() time.Duration {
	_, rtt, _ := strings.Cut(string(k), "+")
	d, _ := time.ParseDuration(rtt) // 0 if there is none
	return d
}

// Package stand is what the measurements need of running servers: contestants who lock
// on them, and counts of what these send. It knows no service; each has a package of its
// own beside it. Of fairlock they use what users do, so that they compile with earlier
// versions of it.
package stand

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Service is where the locks under comparison live.
type Service struct {
	Name        string // as people write it
	Peer        string // the lock that ships with its client
	Contestants []Contestant

	// Attach returns a Stand on running servers.
	Attach func(ctx context.Context, at Addresses) (Stand, error)
}

// Addresses are those of running servers.
type Addresses struct {
	Clients []string // for contenders; through proxies, if the network is to take time
	Direct  []string // for the stand itself
}

// A Stand is a place for contestants on running servers. Its methods look at lines from
// the side: what they send is not counted.
type Stand interface {
	// Open makes n contenders, and what they run on: at most so many clients
	// where several sessions fit into one.
	Open(ctx context.Context, c Contestant, n, clients int) (*Team, error)

	// Length returns how many entries are in a line.
	Length(ctx context.Context, line string) (int, error)

	// Fill puts n entries of the peer's kind at the end of a line. Nobody waits
	// there: but that is all that the servers see of those who do.
	Fill(ctx context.Context, line string, n int) error

	// Clear empties a line that nobody waits in.
	Clear(ctx context.Context, line string) error

	// Close leaves the servers running.
	Close() error
}

// A Kind is a kind of cluster to measure on: one of those below, or one of them
// with a round trip added to the network, such as "three+4ms".
type Kind string

// The kinds whose network takes no time.
const (
	Single      Kind = "single"       // one member that does not wait for the disk
	SingleFsync Kind = "single-fsync" // one member that does, as services come
	Three       Kind = "three"
	ThreeFsync  Kind = "three-fsync"
)

// Kinds are those whose network takes no time.
func Kinds() []Kind { return []Kind{Single, SingleFsync, Three, ThreeFsync} }

// ParseKind reads a kind.
func ParseKind(text string) (Kind, error) {
	k := Kind(strings.TrimSpace(text))
	base, rtt, far := strings.Cut(string(k), "+")
	if !slices.Contains(Kinds(), Kind(base)) {
		return "", fmt.Errorf("%q is none of %s, with or without a round trip such as \"+4ms\"", k, Names())
	}
	if d, err := time.ParseDuration(rtt); far && (err != nil || d <= 0) {
		return "", fmt.Errorf("%q does not end with a time", k)
	}
	return k, nil
}

// Names lists the kinds for people.
func Names() string {
	names := make([]string, len(Kinds()))
	for i, k := range Kinds() {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Far is the same with a round trip added.
func (k Kind) Far(rtt time.Duration) Kind { return k + Kind("+"+rtt.String()) }

// Members is how many servers there are.
func (k Kind) Members() int {
	if strings.HasPrefix(string(k), string(Three)) {
		return 3
	}
	return 1
}

// Fsync says that servers wait for the disk.
func (k Kind) Fsync() bool { return strings.Contains(string(k), "-fsync") }

// RTT is the round trip that is added between clients and servers.
func (k Kind) RTT() time.Duration {
	_, rtt, _ := strings.Cut(string(k), "+")
	d, _ := time.ParseDuration(rtt) // none has none
	return d
}

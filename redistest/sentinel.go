package redistest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/fairlock/internal/testserver"
)

// MasterName is what Sentinels call the master that they watch.
const MasterName = "main"

// answerWithin is how long Sentinels that are asked may take: one may be stopped. A slow machine
// needs a longer timeout after each failure.
const answerWithin = 200 * time.Millisecond

// SentinelOptions are the options of StartSentinels. Nil is the same as the zero value.
type SentinelOptions struct {
	// Server are the options of the master and its replicas. Of these, Sentinels use Program,
	// TLS, ServerCA, Disk and StartTimeout.
	Server *Options

	// Replicas is how many replicas the master has. 0 means 2, the most is 8.
	Replicas int

	// Sentinels is how many there are. More than half of them must agree. 0 means 3, the most
	// is 9.
	Sentinels int

	// DownAfter is how long the master may not answer before it counts as down. 0 means 1 s.
	// Fractions of a millisecond are cut off.
	DownAfter time.Duration

	// FailoverTimeout is how long one failover may take; the next one begins twice that later
	// at the earliest. A replica that follows another master is set right after that time. 0
	// means 10 s; Sentinel's own default is 3 min.
	FailoverTimeout time.Duration
}

func (o *SentinelOptions) complete() (SentinelOptions, Options, error) {
	var opts SentinelOptions
	if o != nil {
		opts = *o
	}
	opts.Replicas = cmp.Or(opts.Replicas, 2)
	opts.Sentinels = cmp.Or(opts.Sentinels, 3)
	opts.DownAfter = cmp.Or(opts.DownAfter, time.Second)
	opts.FailoverTimeout = cmp.Or(opts.FailoverTimeout, 10*time.Second)
	switch {
	case opts.Replicas < 0 || opts.Replicas > 8:
		return opts, Options{}, fmt.Errorf("redistest: options: %d replicas, want 1 to 8", opts.Replicas)
	case opts.Sentinels < 0 || opts.Sentinels > 9:
		return opts, Options{}, fmt.Errorf("redistest: options: %d Sentinels, want 1 to 9", opts.Sentinels)
	case opts.DownAfter < time.Millisecond || opts.FailoverTimeout < time.Millisecond:
		return opts, Options{}, fmt.Errorf("redistest: options: down after %v, failover timeout %v, want at least 1ms", opts.DownAfter, opts.FailoverTimeout)
	}
	server, err := opts.Server.several()
	return opts, server, err
}

// Sentinels are a master with replicas, and the Sentinels that watch them. Its methods are safe for
// concurrent use.
type Sentinels struct {
	servers   []*Server // the first is the master at the start
	sentinels []*Server
	close     func() error
}

// NewSentinels is StartSentinels for a test. It closes all after the test and all cleanups that
// were registered later. It fails the test if they do not start.
func NewSentinels(t testing.TB, opts *SentinelOptions) *Sentinels {
	t.Helper()
	s, err := StartSentinels(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

// StartSentinels starts a master with replicas, and Sentinels that watch them. It returns when the
// replicas are in sync and each Sentinel knows all others and all replicas. Each server stands
// behind a proxy, at whose address Sentinels, replicas and clients reach it, and which Sentinels
// give to clients. Otherwise it is like Start.
func StartSentinels(ctx context.Context, opts *SentinelOptions) (*Sentinels, error) {
	o, server, err := opts.complete()
	if err != nil {
		return nil, err
	}
	s := &Sentinels{}
	s.close = sync.OnceValue(s.shutdown)
	err = s.startServers(ctx, server, o.Replicas)
	if err == nil {
		err = s.startSentinels(ctx, server, o)
	}
	if err == nil {
		err = s.waitReady(ctx, server)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sentinels) startServers(ctx context.Context, opts Options, replicas int) error {
	r := role{kind: watched, secret: rand.Text(), peers: &peers{}}
	for range 1 + replicas {
		if len(s.servers) > 0 {
			r.ca = s.servers[0].ca
		}
		server, err := begin(ctx, opts, r)
		if err != nil {
			return err
		}
		s.servers = append(s.servers, server)
		r.peers.all = s.servers
		if len(s.servers) == 1 {
			continue
		}
		if err := server.Follow(ctx, s.servers[0]); err != nil {
			return err
		}
	}
	return nil
}

// startSentinels starts the Sentinels, again while another process has taken a port.
func (s *Sentinels) startSentinels(ctx context.Context, opts Options, o SentinelOptions) error {
	for attempt := 1; ; attempt++ {
		err := s.trySentinels(ctx, opts, o)
		if err == nil || attempt == 5 || !testserver.PortTaken(err) {
			return err
		}
		for _, x := range s.sentinels {
			err = errors.Join(err, x.Close())
		}
		s.sentinels = nil
	}
}

func (s *Sentinels) trySentinels(ctx context.Context, opts Options, o SentinelOptions) error {
	// They need to know each other's ports before they start.
	var known []string
	for range o.Sentinels {
		x := newServer(opts, role{kind: sentinel, ca: s.servers[0].ca, id: newID()})
		x.opts.Clock, x.opts.RESP2 = false, false
		s.sentinels = append(s.sentinels, x)
		if err := x.prepare(ctx); err != nil {
			return err
		}
		known = append(known, fmt.Sprintf("sentinel known-sentinel %s 127.0.0.1 %s %s", MasterName, portOf(x.listen), x.role.id))
	}
	master := s.servers[0]
	shared := []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s %d", MasterName, portOf(master.Addr()), o.Sentinels/2+1),
		fmt.Sprintf("sentinel auth-user %s %s", MasterName, admin),
		fmt.Sprintf("sentinel auth-pass %s %s", MasterName, master.role.secret),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, o.DownAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", MasterName, o.FailoverTimeout.Milliseconds()),
		fmt.Sprintf("sentinel parallel-syncs %s %d", MasterName, o.Replicas),
	}
	for _, replica := range s.servers[1:] {
		shared = append(shared, fmt.Sprintf("sentinel known-replica %s 127.0.0.1 %s", MasterName, portOf(replica.Addr())))
	}
	for i, x := range s.sentinels {
		x.role.lines = slices.Concat([]string{"sentinel myid " + x.role.id}, shared, known[:i], known[i+1:])
		if err := x.configure(); err != nil {
			return err
		}
		if err := x.launch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newID returns an id of a Sentinel, which no other has.
func newID() string {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // it never fails
	return hex.EncodeToString(id)
}

// Servers returns the master of the start and its replicas, in this order for ever.
func (s *Sentinels) Servers() []*Server { return slices.Clone(s.servers) }

// Sentinels returns the Sentinels.
func (s *Sentinels) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Addrs returns the "host:port" of each Sentinel.
func (s *Sentinels) Addrs() []string {
	addrs := make([]string, len(s.sentinels))
	for i, x := range s.sentinels {
		addrs[i] = x.Addr()
	}
	return addrs
}

// Close kills all, without notice to clients, and removes what StartSentinels has made. Further
// calls return the first result.
func (s *Sentinels) Close() error { return s.close() }

func (s *Sentinels) shutdown() error {
	var errs []error
	for _, x := range slices.Concat(s.sentinels, s.servers) {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

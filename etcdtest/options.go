package etcdtest

import (
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

// Options are the settings of a cluster. Nil is the same as the zero value: one
// embedded member that is fast and forgets everything.
type Options struct {
	// Members is the number of members: 1, 3 or 5, at most 9. 0 means 1.
	Members int

	// Learner adds one more member, the last one. It copies what the others store, but has
	// no vote, and refuses nearly all requests of clients. A member that is replaced is one
	// at first.
	Learner bool

	// Processes runs every member in a process of its own, so that it can be
	// killed, stopped and restarted. The server is built by the go command in
	// the current directory, which must be in a module that requires this one;
	// the first build takes seconds, later ones come from Go's build cache. A
	// module with a vendor directory must list the server as a tool:
	// "go get -tool github.com/fairlock/fairlock/etcdtest/etcdserver", then
	// "go mod vendor". False runs the members inside this process.
	Processes bool

	// Proxied puts a proxy before every member's client address and one before
	// its peer address; see Member.ClientProxy, Member.PeerProxy and
	// Member.CutPeers. The members then talk TLS among themselves.
	Proxied bool

	// Fsync makes members write to the disk before they acknowledge. False leaves that
	// to the operating system: nothing is lost when a process is killed, but something
	// may be when the machine loses power.
	Fsync bool

	// Dir is the directory for the data, which must exist and be empty. Close leaves the
	// data there, a Start that fails does not. "" means a temporary directory, which
	// Close removes: in memory if Fsync is false and /dev/shm has at least 1 GiB free,
	// else on the disk.
	Dir string

	// Tick is the time between heartbeats of the leader. Election is how long a
	// follower is without one before it stands for election, at least 5 ticks; Tick
	// alone sets Election to ten times as much. 0 means 50 ms and 500 ms, and for a
	// single member, which needs no agreement, 10 ms and 100 ms. The shortest lease
	// that etcd grants is one and a half elections, rounded up to seconds: 1 s by
	// default. Fractions of a millisecond are cut off.
	Tick, Election time.Duration

	// QuotaBytes is the size of the database at which etcd refuses to grow it, leases
	// included. 0 means etcd's own, 2 GiB.
	QuotaBytes int64

	// TLS admits only clients that use TLS and show a certificate of Cluster.CA. To a
	// cluster with authentication the certificate's name is the user.
	TLS bool

	// ServerCA, with TLS, returns the authority that issues the servers' certificates
	// for clients, made from the one that signs everything else: (*testnet.CA).Expired for one.
	// The cluster's own clients do not check it then. Nil means the same authority.
	ServerCA func(*testnet.CA) *testnet.CA

	// StartTimeout is how long a start may show no progress: no line in the log of any
	// member, and no member more that is ready. The build, and the time in which the
	// machine did not let this process run, do not count. A start may take ten times as
	// long in all. 0 means one minute.
	StartTimeout time.Duration
}

// complete returns a copy with the defaults filled in, or what is wrong.
func (o *Options) complete() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Members == 0 {
		opts.Members = 1
	}
	if opts.Tick == 0 {
		opts.Tick = 50 * time.Millisecond
		if opts.Members == 1 {
			opts.Tick = 10 * time.Millisecond
		}
	}
	if opts.Election == 0 {
		opts.Election = 10 * opts.Tick
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = time.Minute
	}
	switch {
	case opts.Members < 1 || opts.Members > 9:
		return opts, fmt.Errorf("etcdtest: options: %d members, want 1 to 9", opts.Members)
	case opts.Tick < time.Millisecond:
		return opts, fmt.Errorf("etcdtest: options: tick %v, want at least 1ms", opts.Tick)
	case opts.Election < 5*opts.Tick:
		return opts, fmt.Errorf("etcdtest: options: election %v, want at least 5 ticks of %v", opts.Election, opts.Tick)
	case opts.StartTimeout < 0:
		return opts, fmt.Errorf("etcdtest: options: negative start timeout %v", opts.StartTimeout)
	}
	if opts.Dir != "" {
		var err error
		opts.Dir, err = testserver.EmptyDir(opts.Dir)
		if err != nil {
			return opts, fmt.Errorf("etcdtest: options: data directory: %w", err)
		}
	}
	return opts, nil
}

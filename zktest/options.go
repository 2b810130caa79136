package zktest

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

// Options are the settings of an ensemble. Nil is the same as the zero value: one
// server that is fast and forgets everything.
type Options struct {
	// Members is the number of members: 1, 3 or 5, at most 9. 0 means 1.
	Members int

	// Proxied puts a proxy before every member's client address and one into
	// each member's way to each other member; see Member.ClientProxy,
	// Member.CutPeers and Member.DelayTo.
	Proxied bool

	// Netty makes members serve clients through Netty, as they do with TLS, and not
	// through Java's own sockets. Requests that such a server has read from a
	// connection take effect even after the client has made another.
	Netty bool

	// TLS admits only clients that use TLS and show a certificate of Ensemble.CA. To
	// access control lists of the scheme "x509" the certificate's subject is the user.
	// Members do not use TLS among themselves.
	TLS bool

	// ServerCA, with TLS, returns the authority that issues the servers' certificates
	// for clients, made from the one that signs everything else: (*testnet.CA).Expired for one.
	// The ensemble's own clients do not check it then. Nil means the same authority.
	ServerCA func(*testnet.CA) *testnet.CA

	// Fsync makes members write to the disk before they acknowledge. False leaves that
	// to the operating system: nothing is lost when a process is killed, but something
	// may be when the machine loses power.
	Fsync bool

	// Dir is the directory for the data, which must exist and be empty. Close leaves the
	// data there, a Start that fails does not. "" means a temporary directory, which
	// Close removes: in memory if Fsync is false and /dev/shm has at least 1 GiB free,
	// else on the disk.
	Dir string

	// Tick is ZooKeeper's unit of time: the shortest session is 2 ticks, a session ends
	// within a tick after its timeout, and a leader sends a heartbeat every half tick.
	// A follower that receives nothing from its leader gives up after syncLimit (20)
	// ticks. 0 means 50 ms, and 100 ms for several members. Fractions of a millisecond
	// are cut off.
	Tick time.Duration

	// MaxSession is the longest session timeout of a client. 0 means 60 s.
	MaxSession time.Duration

	// ContainerCheck is how often the leader removes containers that have become empty.
	// 0 means an hour, so that no test meets a removal by chance. The server's own is 60 s.
	ContainerCheck time.Duration

	// HeapBytes is the largest size of Java's heap in each member. 0 means 128 MiB,
	// which is enough for some hundred sessions.
	HeapBytes int64

	// Properties are further system properties (-D) of the server, Config further lines
	// of its zoo.cfg. They override the settings above.
	Properties, Config map[string]string

	// StartTimeout is how long a start may show no progress: no line in the log of any
	// member, and no member more that serves. The time in which the machine did not let
	// this process run does not count. A start may take ten times as long in all. 0 means
	// one minute.
	StartTimeout time.Duration
}

// complete returns a copy with the defaults filled in, or what is wrong.
func (o *Options) complete() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Properties, opts.Config = maps.Clone(opts.Properties), maps.Clone(opts.Config)
	if opts.Members == 0 {
		opts.Members = 1
	}
	if opts.Tick == 0 {
		opts.Tick = 100 * time.Millisecond
		if opts.Members == 1 {
			opts.Tick = 50 * time.Millisecond
		}
	}
	if opts.MaxSession == 0 {
		opts.MaxSession = time.Minute
	}
	if opts.ContainerCheck == 0 {
		opts.ContainerCheck = time.Hour
	}
	if opts.HeapBytes == 0 {
		opts.HeapBytes = 128 << 20
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = time.Minute
	}
	switch {
	case opts.Members < 1 || opts.Members > 9:
		return opts, fmt.Errorf("zktest: options: %d members, want 1 to 9", opts.Members)
	case opts.Tick < time.Millisecond:
		return opts, fmt.Errorf("zktest: options: tick %v, want at least 1ms", opts.Tick)
	case opts.MaxSession < 2*opts.Tick:
		return opts, fmt.Errorf("zktest: options: longest session %v, want at least 2 ticks of %v", opts.MaxSession, opts.Tick)
	case opts.ContainerCheck < time.Millisecond:
		return opts, fmt.Errorf("zktest: options: container check %v, want at least 1ms", opts.ContainerCheck)
	case opts.HeapBytes < 32<<20:
		return opts, fmt.Errorf("zktest: options: a heap of %d bytes, want at least 32 MiB", opts.HeapBytes)
	case opts.StartTimeout < 0:
		return opts, fmt.Errorf("zktest: options: negative start timeout %v", opts.StartTimeout)
	}
	for _, set := range []map[string]string{opts.Properties, opts.Config} {
		for key, value := range set {
			if key == "" || strings.ContainsAny(key, "=\n") || strings.Contains(value, "\n") {
				return opts, fmt.Errorf("zktest: options: setting %q=%q, want a key without '=' and one line", key, value)
			}
		}
	}
	if opts.Dir != "" {
		var err error
		opts.Dir, err = testserver.EmptyDir(opts.Dir)
		if err != nil {
			return opts, fmt.Errorf("zktest: options: data directory: %w", err)
		}
	}
	return opts, nil
}

package onredis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/redistest"
)

// The setups, which a trial.Service calls transports.
const (
	Alone     = "alone"    // one server that keeps nothing when it ends
	Logged    = "AOF"      // one server with an append-only file
	Replicas  = "replicas" // a master with two replicas, which an operator promotes
	Sentinels = "Sentinel" // a master with two replicas, which three Sentinels watch
	Cluster   = "cluster"  // three shards of three nodes each
	Five      = "five"     // five servers that know nothing of each other, for Redlock
)

// Setups returns all setups of Fairlock, the default first.
func Setups() []string { return []string{Alone, Logged, Replicas, Sentinels, Cluster} }

// maxTTL is the greatest TTL of the root, for which nothing is granted in a new life. Where servers forget,
// all sessions have it: with a shorter TTL a holder has lost its session before a client could be granted
// too early.
const maxTTL = 4 * time.Second

// downAfter is how long a master may not answer: on a busy machine one that is well takes a second now and then.
const downAfter = 2 * time.Second

// The user of the clients, whose rights a fault takes away.
const app = "app"

// nodes is how many servers have the data.
func (s *Service) nodes() int {
	switch s.setup {
	case Replicas, Sentinels, Cluster:
		return 3
	}
	return 1
}

// start starts the servers of a setup.
func (s *Service) start(ctx context.Context) error {
	// Clients that are cut off leave connections, and each client makes three.
	o := &redistest.Options{Config: []string{"user " + app + " on >" + app + " ~* &* +@all", "maxclients 4000"}}
	switch s.setup {
	case Alone:
		o.Clock = true
		return s.startServers(ctx, o, 1)
	case Logged:
		o.Persistence = redistest.Log
		return s.startServers(ctx, o, 1)
	case Five:
		o.Clock = true
		return s.startServers(ctx, o, 5)
	case Replicas:
		return s.startReplicas(ctx, o)
	case Sentinels:
		var err error
		s.sentinels, err = redistest.StartSentinels(ctx, &redistest.SentinelOptions{Server: o, DownAfter: downAfter, FailoverTimeout: maxTTL + time.Second})
		if err != nil {
			return err
		}
		s.closers = append(s.closers, s.sentinels.Close)
		s.servers = s.sentinels.Servers()
	case Cluster:
		var err error
		s.cluster, err = redistest.StartCluster(ctx, &redistest.ClusterOptions{Server: o, Replicas: 2, NodeTimeout: downAfter})
		if err != nil {
			return err
		}
		s.closers = append(s.closers, s.cluster.Close)
		s.servers = s.cluster.Nodes()
		owner, err := s.cluster.Owner(ctx, prefix)
		if err != nil {
			return err
		}
		s.setPrimary(owner)
		return nil
	default:
		return fmt.Errorf("onredis: there is no setup %q", s.setup)
	}
	s.setPrimary(s.servers[0])
	return nil
}

func (s *Service) startServers(ctx context.Context, o *redistest.Options, n int) error {
	for range n {
		server, err := redistest.Start(ctx, o)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, server.Close)
		s.servers = append(s.servers, server)
	}
	s.setPrimary(s.servers[0])
	return nil
}

func (s *Service) startReplicas(ctx context.Context, o *redistest.Options) error {
	if err := s.startServers(ctx, o, 1); err != nil {
		return err
	}
	for range 2 {
		replica, err := s.servers[0].Replica(ctx, nil)
		if err != nil {
			return err
		}
		s.servers = append(s.servers, replica)
	}
	return nil
}

// replicas returns the servers that follow the primary, with a link that can be cut: of Replicas only.
func (s *Service) replicas() []*redistest.Server {
	primary := s.master()
	return slices.DeleteFunc(slices.Clone(s.servers), func(r *redistest.Server) bool { return r == primary })
}

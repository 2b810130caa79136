package redistest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/fairlock/internal/testserver"
)

// slots is how many slots the keys of a cluster have.
const slots = 16384

// ClusterOptions are the options of StartCluster. Nil is the same as the zero value.
type ClusterOptions struct {
	// Server are the options of each node.
	Server *Options

	// Shards is how many masters there are. 0 means 3, the most is 9.
	Shards int

	// Replicas is how many replicas each master has, at most 3.
	Replicas int

	// NodeTimeout is how long a node may not answer before it counts as down. A master that
	// is cut off from most others for so long refuses requests. 0 means 1 s; the server's own
	// default is 15 s. Fractions of a millisecond are cut off.
	NodeTimeout time.Duration
}

func (o *ClusterOptions) complete() (ClusterOptions, Options, error) {
	var opts ClusterOptions
	if o != nil {
		opts = *o
	}
	opts.Shards = cmp.Or(opts.Shards, 3)
	opts.NodeTimeout = cmp.Or(opts.NodeTimeout, time.Second)
	switch {
	case opts.Shards < 0 || opts.Shards > 9:
		return opts, Options{}, fmt.Errorf("redistest: options: %d shards, want 1 to 9", opts.Shards)
	case opts.Replicas < 0 || opts.Replicas > 3:
		return opts, Options{}, fmt.Errorf("redistest: options: %d replicas of each master, want 0 to 3", opts.Replicas)
	case opts.NodeTimeout < time.Millisecond:
		return opts, Options{}, fmt.Errorf("redistest: options: node timeout %v, want at least 1ms", opts.NodeTimeout)
	}
	server, err := opts.Server.several()
	return opts, server, err
}

// Cluster is a cluster of several nodes. Its methods are safe for concurrent use.
type Cluster struct {
	nodes []*Server
	opts  ClusterOptions
	ids   map[*Server]string
	close func() error
}

// NewCluster is StartCluster for a test. It closes the cluster after the test and all cleanups that
// were registered later. It fails the test if the cluster does not start.
func NewCluster(t testing.TB, opts *ClusterOptions) *Cluster {
	t.Helper()
	c, err := StartCluster(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, c)
	return c
}

// StartCluster starts a cluster, and returns when each node reports that all slots are served,
// and all replicas are in sync. Each node stands behind a proxy, at whose address clients and
// replicas reach it, and which the nodes give to clients. Messages between nodes bypass it.
// Otherwise StartCluster is like Start.
func StartCluster(ctx context.Context, opts *ClusterOptions) (*Cluster, error) {
	o, server, err := opts.complete()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: o, ids: map[*Server]string{}}
	c.close = sync.OnceValue(c.shutdown)
	err = c.start(ctx, server)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, opts Options) error {
	r := role{kind: node, secret: rand.Text(), peers: &peers{}}
	r.lines = []string{fmt.Sprintf("cluster-node-timeout %d", c.opts.NodeTimeout.Milliseconds())}
	for range c.opts.Shards * (1 + c.opts.Replicas) {
		if len(c.nodes) > 0 {
			r.ca = c.nodes[0].ca
		}
		n, err := begin(ctx, opts, r)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
		r.peers.all = c.nodes
	}
	waiting, cancel := testserver.Progressing(ctx, opts.StartTimeout, c.progress)
	defer cancel()
	if err := c.join(waiting); err != nil {
		return fmt.Errorf("redistest: form the cluster: %w", err)
	}
	return nil
}

func (c *Cluster) progress() (all int) {
	for _, n := range c.nodes {
		all += n.running().StderrLen()
	}
	return all
}

// join makes the nodes a cluster.
func (c *Cluster) join(ctx context.Context) error {
	for i, n := range c.nodes {
		id, err := n.Do(ctx, "CLUSTER", "MYID").ToString()
		if err != nil {
			return err
		}
		c.ids[n] = id
		var commands [][]string
		if i < c.opts.Shards {
			first, last := i*slots/c.opts.Shards, (i+1)*slots/c.opts.Shards-1
			commands = append(commands,
				// Two masters with one epoch would argue about it for a while.
				[]string{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
				[]string{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)})
		}
		for _, other := range c.nodes[:i] {
			commands = append(commands, []string{"CLUSTER", "MEET", "127.0.0.1", portOf(other.Addr()), portOf(other.bus)})
		}
		if err := n.all(ctx, commands...); err != nil {
			return err
		}
	}
	if err := c.until(ctx, c.served); err != nil {
		return err
	}
	for i, n := range c.nodes[c.opts.Shards:] {
		if err := n.all(ctx, []string{"CLUSTER", "REPLICATE", c.ids[c.nodes[i%c.opts.Shards]]}); err != nil {
			return err
		}
	}
	for _, n := range c.nodes[c.opts.Shards:] {
		if err := n.CatchUp(ctx); err != nil {
			return err
		}
	}
	return c.until(ctx, c.knowsReplicas)
}

// all runs commands one after the other.
func (s *Server) all(ctx context.Context, commands ...[]string) error {
	for _, command := range commands {
		if err := s.Do(ctx, command...).Error(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
		}
	}
	return nil
}

func (c *Cluster) until(ctx context.Context, ok func(context.Context, *Server) (bool, error)) error {
	for _, n := range c.nodes {
		if err := until(ctx, func() (bool, error) { return ok(ctx, n) }); err != nil {
			return err
		}
	}
	return nil
}

// served reports whether a node reports that all slots are served, and knows all others.
func (c *Cluster) served(ctx context.Context, n *Server) (bool, error) {
	text, err := n.Do(ctx, "CLUSTER", "INFO").ToString()
	if err != nil {
		return false, err
	}
	return strings.Contains(text, "cluster_state:ok") && strings.Contains(text, fmt.Sprintf("cluster_known_nodes:%d\r", len(c.nodes))), nil
}

// knowsReplicas reports whether a node knows which others are replicas.
func (c *Cluster) knowsReplicas(ctx context.Context, n *Server) (bool, error) {
	text, err := n.Do(ctx, "CLUSTER", "NODES").ToString()
	if err != nil {
		return false, err
	}
	return strings.Count(text, "slave ") == c.opts.Shards*c.opts.Replicas, nil
}

// Nodes returns all nodes: the masters of the start in the order of their slots, then the replicas
// of the first, second, and so on, then a second replica of each.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Addrs returns the "host:port" of each node.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// Close kills all nodes, without notice to clients, and removes what StartCluster has made. Further
// calls return the first result.
func (c *Cluster) Close() error { return c.close() }

func (c *Cluster) shutdown() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// Owner returns the master that serves a key, according to the first node that answers.
func (c *Cluster) Owner(ctx context.Context, key string) (*Server, error) {
	// One may be stopped, so all are asked at once.
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	type answer struct {
		owner *Server
		err   error
	}
	answers := make(chan answer, len(c.nodes))
	for _, n := range c.nodes {
		wg.Go(func() {
			owner, err := c.owner(ctx, n, key)
			answers <- answer{owner, err}
		})
	}
	var errs []error
	for range c.nodes {
		a := <-answers
		if a.err == nil {
			return a.owner, nil
		}
		errs = append(errs, a.err)
	}
	return nil, fmt.Errorf("redistest: owner of %q: %w", key, errors.Join(errs...))
}

func (c *Cluster) owner(ctx context.Context, n *Server, key string) (*Server, error) {
	slot, err := n.Do(ctx, "CLUSTER", "KEYSLOT", key).AsInt64()
	if err != nil {
		return nil, err
	}
	ranges, err := n.Do(ctx, "CLUSTER", "SLOTS").ToArray()
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		// First slot, last slot, and the master's host, port and id. The port is not that of TLS:
		// the question comes through the socket.
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		first, _ := fields[0].AsInt64() // the server's
		last, _ := fields[1].AsInt64()
		master, err := fields[2].ToArray()
		if err != nil || len(master) < 3 || slot < first || slot > last {
			continue
		}
		id, err := master[2].ToString()
		if err != nil {
			return nil, err
		}
		for _, owner := range c.nodes {
			if c.ids[owner] == id {
				return owner, nil
			}
		}
	}
	return nil, fmt.Errorf("no node has slot %d", slot)
}

// Move moves the slot of a key, with all keys in it, to another master while clients use it. It
// returns when the masters agree; clients notice by MOVED.
func (c *Cluster) Move(ctx context.Context, key string, to *Server) error {
	slot, from, err := c.beginMove(ctx, key, to)
	if err != nil || from == to {
		return err
	}
	// The new owner first: it must not refuse what the old one sends to it.
	for _, n := range append([]*Server{to, from}, c.nodes...) {
		fields, err := n.Info(ctx, "replication")
		if err == nil && fields["role"] == "master" {
			err = n.all(ctx, []string{"CLUSTER", "SETSLOT", slot, "NODE", c.ids[to]})
		}
		if err != nil {
			return fmt.Errorf("redistest: move slot %s: %w", slot, err)
		}
	}
	return nil
}

// BeginMove is the first half of Move: the keys of the slot are at the new master, but the slot is
// not yet. The old one answers ASK. Move ends that.
func (c *Cluster) BeginMove(ctx context.Context, key string, to *Server) error {
	_, _, err := c.beginMove(ctx, key, to)
	return err
}

func (c *Cluster) beginMove(ctx context.Context, key string, to *Server) (slot string, from *Server, err error) {
	from, err = c.Owner(ctx, key)
	if err != nil || from == to {
		return "", from, err
	}
	number, err := to.Do(ctx, "CLUSTER", "KEYSLOT", key).AsInt64()
	slot = strconv.FormatInt(number, 10)
	if err == nil {
		err = to.all(ctx, []string{"CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from]})
	}
	if err == nil {
		err = from.all(ctx, []string{"CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to]})
	}
	if err == nil {
		err = from.migrate(ctx, slot, to)
	}
	if err != nil {
		return "", nil, fmt.Errorf("redistest: move slot %s: %w", slot, err)
	}
	return slot, from, nil
}

// migrate sends all keys of a slot to another node.
func (s *Server) migrate(ctx context.Context, slot string, to *Server) error {
	for {
		keys, err := s.Do(ctx, "CLUSTER", "GETKEYSINSLOT", slot, "100").AsStrSlice()
		if err != nil || len(keys) == 0 {
			return err
		}
		command := append([]string{"MIGRATE", "127.0.0.1", portOf(to.listen), "", "0", "5000", "AUTH2", admin, s.role.secret, "KEYS"}, keys...)
		if err := s.all(ctx, command); err != nil {
			return err
		}
	}
}

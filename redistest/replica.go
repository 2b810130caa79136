package redistest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/testnet"
)

// ReplicaOptions are the options of Server.Replica. Nil is the same as the zero value.
type ReplicaOptions struct {
	// Config are lines of redis.conf, as in Options. The replica has those of its master's
	// Options too.
	Config []string
}

// link is the path from a replica to its master. It carries only that connection.
type link struct {
	master *Server
	proxy  *testnet.Proxy
}

func newLink(master *Server) (*link, error) {
	// A replica that is turned away tries again only after a second.
	proxy, err := testnet.New(master.Addr(), &testnet.Options{DialRetry: true})
	if err != nil {
		return nil, err
	}
	l := &link{master: master, proxy: proxy}
	master.mu.Lock()
	defer master.mu.Unlock()
	master.followers[l] = true
	return l, nil
}

func (l *link) close() error {
	l.master.mu.Lock()
	delete(l.master.followers, l)
	l.master.mu.Unlock()
	return l.proxy.Close()
}

// Replica starts a replica of the server, through a proxy: see Link. It returns when the replica
// has all that the server had at the call. Close of the server closes the replica too.
func (s *Server) Replica(ctx context.Context, opts *ReplicaOptions) (*Server, error) {
	own := s.opts
	own.Dir = ""
	if opts != nil {
		if err := checkLines(opts.Config); err != nil {
			return nil, err
		}
		own.Config = slices.Concat(own.Config, opts.Config)
	}
	if s.role.kind != alone {
		return nil, errors.New("redistest: replica: a Sentinel or a cluster has its replicas from the start")
	}
	replica, err := begin(ctx, own, role{secret: s.role.secret, ca: s.ca})
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	// A replica that finds its master in its configuration connects only a second later.
	err = replica.Follow(ctx, s)
	if err == nil {
		err = replica.CatchUp(ctx)
	}
	if err == nil {
		err = s.adopt(replica)
	}
	if err != nil {
		return nil, errors.Join(err, replica.Close())
	}
	return replica, nil
}

// Link returns the proxy between this replica and its master: replies are what the master sends.
// It is nil for a master, and for the replicas of a Sentinel or a cluster, which choose their
// master themselves. Follow makes another.
func (s *Server) Link() *testnet.Proxy {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil
	}
	return s.link.proxy
}

// CutOff cuts this replica off from its master, in both directions; clients still reach it. What
// the master writes after CutOff has returned does not arrive before Rejoin, and never if the
// replica is promoted before. CutOff fails for a server without a Link.
func (s *Server) CutOff() error { return s.throughLink("cut off", (*testnet.Proxy).Hold) }

// Rejoin ends CutOff. The replica gets what it has missed.
func (s *Server) Rejoin() error { return s.throughLink("rejoin", (*testnet.Proxy).Heal) }

func (s *Server) throughLink(op string, do func(*testnet.Proxy, fault.Direction)) error {
	proxy := s.Link()
	if proxy == nil {
		return fmt.Errorf("redistest: %s: the server has no link to a master: see CutReplicas", op)
	}
	do(proxy, fault.Both)
	return nil
}

// Replicas is the label of connections that replicas make: see Server.Proxy. The first message of
// a replica is a lone PING, with which clients do not begin.
const Replicas = "replicas"

const lonePing = "*1\r\n$4\r\nPING\r\n"

func labelOf(head []byte) (label string, ok bool) {
	text := string(head)
	switch {
	case text == lonePing:
		return Replicas, true
	case len(text) < len(lonePing) && text == lonePing[:len(text)]:
		return "", false
	default:
		return "", true
	}
}

// CutReplicas cuts all replicas of this server off from it, as CutOff does; clients still reach
// both. It also holds for replicas that Sentinel or a cluster make follow this server later, but
// not with TLS: hide those with Server.Proxy.
func (s *Server) CutReplicas() {
	s.eachFollower((*testnet.Proxy).Hold)
	if s.front != nil {
		s.front.HoldFrom(Replicas, fault.Both)
	}
}

// HealReplicas ends CutReplicas, and CutOff of each replica.
func (s *Server) HealReplicas() {
	s.eachFollower((*testnet.Proxy).Heal)
	if s.front != nil {
		s.front.HealFrom(Replicas, fault.Both)
	}
}

func (s *Server) eachFollower(do func(*testnet.Proxy, fault.Direction)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.followers {
		do(l.proxy, fault.Both)
	}
}

// Promote makes this replica a master, with what it has received (REPLICAOF NO ONE). The old
// master does not notice: kill it, unless two masters are wanted.
func (s *Server) Promote(ctx context.Context) error { return s.replicaOf(ctx, "", nil) }

// Follow makes this server a replica of another, through a new proxy; one that Sentinels watch goes
// through the proxy of the other. Follow returns when the server has left the master before: see
// CatchUp. What the other does not have is lost. Both must come from one Start or StartSentinels.
func (s *Server) Follow(ctx context.Context, master *Server) error {
	if master.role.secret != s.role.secret || master == s {
		return errors.New("redistest: follow: want another server of the same Start")
	}
	if s.role.kind == watched {
		return s.replicaOf(ctx, portOf(master.Addr()), nil)
	}
	l, err := newLink(master)
	if err != nil {
		return err
	}
	if err := s.replicaOf(ctx, portOf(l.proxy.Addr()), l); err != nil {
		return errors.Join(err, l.close())
	}
	return nil
}

// replicaOf makes the server follow a port, none if it is "", through a link if there is one. It also
// changes the configuration: a replica that is restarted must not go back to the master before.
func (s *Server) replicaOf(ctx context.Context, port string, next *link) error {
	if s.role.kind == sentinel || s.role.kind == node {
		return errors.New("redistest: want a server of Start, Replica or StartSentinels to promote it or to let it follow")
	}
	host := "127.0.0.1"
	if port == "" {
		host, port = "NO", "ONE"
	}
	for _, command := range [][]string{{"REPLICAOF", host, port}, {"CONFIG", "REWRITE"}} {
		if err := s.Do(ctx, command...).Error(); err != nil {
			return fmt.Errorf("redistest: %s: %w", command[0], err)
		}
	}
	s.mu.Lock()
	before := s.link
	s.link = next
	s.mu.Unlock()
	if before != nil {
		return before.close()
	}
	return nil
}

// CatchUp returns when this replica has all that its master had written at the call, and the
// master knows that it is there. It fails for a server that is no replica.
func (s *Server) CatchUp(ctx context.Context) error {
	master, err := s.master(ctx)
	if err != nil {
		return err
	}
	if master == nil {
		return errors.New("redistest: catch up: the server is no replica")
	}
	written, err := master.Info(ctx, "replication")
	if err != nil {
		return err
	}
	least, err := strconv.ParseInt(written["master_repl_offset"], 10, 64)
	if err != nil {
		return fmt.Errorf("redistest: catch up: %w", err)
	}
	return until(ctx, func() (bool, error) {
		own, err := s.Info(ctx, "replication")
		if err != nil {
			return false, err
		}
		theirs, err := master.Info(ctx, "replication")
		if err != nil {
			return false, err
		}
		if own["master_link_status"] != "up" || own["master_replid"] != theirs["master_replid"] || !online(theirs, portOf(s.Addr())) {
			return false, nil
		}
		// A first replica gives its master a history, which begins then.
		offset, err := strconv.ParseInt(own["slave_repl_offset"], 10, 64)
		return offset >= least, err
	})
}

// master returns the server that this one follows, nil if none.
func (s *Server) master(ctx context.Context) (*Server, error) {
	if s.role.peers != nil {
		fields, err := s.Info(ctx, "replication")
		if err != nil {
			return nil, err
		}
		return s.role.peers.at(fields["master_port"]), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	return s.link.master, nil
}

// online reports whether a master, of which these are the fields of INFO, sends its writes to the
// replica with this port.
func online(master map[string]string, port string) bool {
	for i := range master {
		if !slaveField.MatchString(i) {
			continue
		}
		fields := strings.Split(master[i], ",")
		if slices.Contains(fields, "port="+port) && slices.Contains(fields, "state=online") {
			return true
		}
	}
	return false
}

// slaveField is the name of a field of INFO that describes a replica.
var slaveField = regexp.MustCompile(`^slave\d+$`)

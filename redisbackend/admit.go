package redisbackend

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/redisbackend/internal/call"
	"github.com/fairlock/fairlock/redisbackend/internal/link"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// Open implements driver.Backend.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("redis: open: %w", err)
	}
	return s, nil
}

func (b *backend) open(ctx context.Context, cfg driver.Config) (*redisSession, error) {
	if cfg.TTL > b.opts.MaxTTL {
		return nil, fmt.Errorf("%w: the TTL %s is above the greatest of the root, %s: choose a shorter one, or another MaxTTL for all programs of the root",
			driver.ErrRefused, cfg.TTL, b.opts.MaxTTL)
	}
	line := link.NewLine(b.finder)
	a, err := b.admit(ctx, line, cfg.Observer, cfg.Logger)
	if err != nil {
		line.Close()
		return nil, err
	}
	s := newSession(b, line, a, cfg) //nolint:contextcheck // it outlives the call
	if err := s.begin(ctx); err != nil {
		s.Abandon()
		return nil, err
	}
	return s, nil
}

// admission is what a session is opened with, when the data is whole.
type admission struct {
	life  string
	since int64 // the number at which that life began; 0: the first one
}

// examination is what one answer shows of the server and the root.
type examination struct {
	server   string // the life
	wrote    bool
	layout   string
	stored   string
	since    int64 // the number at which the stored life began; 0: the first one
	claim    string
	counted  time.Duration
	maxTTL   time.Duration // 0 where the root does not say
	nodes    int64         // the same
	policy   string        // maxmemory-policy
	replicas int64         // those that are connected
	mode     string        // "standalone" or "cluster"
	version  string        // of Redis that the server is compatible with
	lacks    []string      // commands that a client that reads needs, and the login may not use
	toWrite  []string      // the same of a client that locks
	proven   bool
}

// examined returns what an answer to the script examine shows.
func examined(a call.Answer) *examination {
	if a.Text(0) == script.Denied {
		return &examination{lacks: a.List(1).Texts()}
	}
	return &examination{
		server: a.Text(1), wrote: a.Int(2) == 1, layout: a.Text(3), stored: a.Text(4), claim: a.Text(5),
		counted: time.Duration(a.Int(6)) * time.Millisecond, maxTTL: time.Duration(a.Int(7)) * time.Millisecond,
		nodes: a.Int(8), policy: a.Text(9), replicas: a.Int(10), mode: a.Text(11), version: a.Text(12),
		lacks: a.List(13).Texts(), toWrite: a.List(14).Texts(), since: a.Int(15), proven: a.Proven,
	}
}

// atLeast reports whether the server has a version, or one whose text is of an unknown form.
func (e *examination) atLeast(major, minor int) bool {
	var a, b int
	_, err := fmt.Sscanf(e.version, "%d.%d", &a, &b)
	return err != nil || a > major || a == major && b >= minor
}

func (e *examination) kind() script.Kind {
	return script.Kind{Cluster: e.mode == "cluster", Flags: e.atLeast(7, 0)}
}

// layoutVersion is the version of the layout. A program refuses a root of another one.
const layoutVersion = "2"

// check returns why the server or the root cannot be used, by an observer or by a client that locks.
func (b *backend) check(e *examination, observer bool) error {
	lacks := b.lacks(e, observer)
	switch {
	case len(e.lacks) > 0:
		return fmt.Errorf("%w: the login lacks the right to use %s on %s*", driver.ErrDenied, strings.Join(lacks, ", "), b.prefix)
	case len(lacks) > 0:
		return fmt.Errorf("%w: the login may read, and not lock: it lacks the right to use %s on %s*", driver.ErrDenied, strings.Join(lacks, ", "), b.prefix)
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", driver.ErrRefused, fmt.Sprintf(format, args...))
	}
	o := &b.opts
	switch {
	case !e.atLeast(6, 2):
		return refuse("the server is Redis %s, and 6.2 or later is needed", e.version)
	case e.layout != "" && e.layout != layoutVersion:
		return refuse("root %q has layout %s, and this program needs layout %s", o.Root, e.layout, layoutVersion)
	case e.maxTTL != 0 && e.maxTTL != o.MaxTTL:
		return refuse("root %q has the greatest TTL %s, and this program %s: all programs of a root need the same MaxTTL", o.Root, e.maxTTL, o.MaxTTL)
	case e.nodes != 0 && e.nodes != int64(o.Nodes):
		return refuse("root %q counts %d nodes, and this program %d: all programs of a root need the same Nodes", o.Root, e.nodes, o.Nodes)
	case o.AcceptWeaker:
	case strings.HasPrefix(e.policy, "allkeys"):
		return refuse("maxmemory-policy is %s: the server may evict a lock while a client holds it; set noeviction, or AcceptWeaker", e.policy)
	case e.replicas >= int64(o.Nodes):
		return refuse("the master has %d replicas, and Nodes is %d: after a failover two clients can hold at once; set Nodes to the number of all servers that have the data, or AcceptWeaker",
			e.replicas, o.Nodes)
	}
	return nil
}

// lacks returns the commands that the login needs and may not use.
func (b *backend) lacks(e *examination, observer bool) []string {
	if observer {
		return e.lacks
	}
	return slices.DeleteFunc(slices.Concat(e.lacks, e.toWrite), func(c string) bool { return c == "wait" && b.opts.acks() == 0 })
}

// proofTime is for how long the server waits for the replicas, at most.
const proofTime = 800 * time.Millisecond

// admit returns when the data is whole in the life of the server. A claim counts from the answer to a write of it that
// enough replicas have: a server that has acknowledged in the new life does so in no older one, so that answer
// shows that no renewal of an older life finds a majority any more. line becomes that of the renewals.
func (b *backend) admit(ctx context.Context, line *link.Line, observer bool, log *slog.Logger) (in admission, err error) {
	empty := false
	send := b.sender(context.Background(), line, call.NewTurns(), nil) //nolint:contextcheck // no session can be over
	a := observed.Admission{
		Quarantine: &b.quarantine, Clock: b.clock, Logger: log, Service: "redis", Observer: observer,
		Do: func(ctx context.Context, w observed.Write) (observed.Shown, error) {
			if w.Kind == observed.Blesses {
				err := b.bless(ctx, send, w)
				if err != nil {
					return observed.Shown{}, err
				}
				w = observed.Write{}
			}
			e, err := b.examine(ctx, send, w)
			if err != nil {
				return observed.Shown{}, err
			}
			if err := b.check(e, observer); err != nil {
				return observed.Shown{}, err
			}
			in, empty = admission{life: e.server, since: e.since}, e.stored == ""
			b.found(e.kind())
			return observed.Shown{
				Store: observed.Store{
					Server: e.server, Stored: e.stored, Claim: e.claim, MaxTTL: max(e.maxTTL, b.opts.MaxTTL),
					Unproven: !e.wrote || !e.proven,
				},
				Counted: e.counted,
			}, nil
		},
	}
	err = a.Admit(ctx)
	switch {
	case err == nil:
		return in, nil
	case empty && ctx.Err() != nil:
		return admission{}, fmt.Errorf(`%w: give ctx a later deadline, or open again, since that time counts; for a root that was never used, run "fairlock init" first`, err)
	}
	return admission{}, err //nolint:wrapcheck // Open does
}

// examine carries out a step of a quarantine.
func (b *backend) examine(ctx context.Context, send *call.Sender, w observed.Write) (*examination, error) {
	r := call.Request{
		Script: &b.set().Examine,
		Args: func(attempt int) script.Args {
			var a script.Args
			switch w.Kind {
			case observed.Claims:
				claim := w.Claim
				if claim != w.Before {
					claim = fmt.Sprint(claim, "-", attempt)
				}
				a.Text("claim", w.Server, w.Before, claim)
				a.Int(b.opts.MaxTTL.Milliseconds(), int64(b.opts.Nodes), b.seen())
			case observed.Counts:
				a.Text("count", w.Server, w.Before)
				a.Int(w.Sum.Milliseconds(), w.Added.Milliseconds(), b.seen())
			case observed.Looks, observed.Blesses:
				a.Text("look", "", "")
			}
			return a
		},
	}
	if w.Kind != observed.Looks {
		r.Acks, r.Within = b.opts.claimAcks(), proofTime
	}
	a, err := send.Do(ctx, r)
	if err != nil {
		return nil, err //nolint:wrapcheck // Open does
	}
	return examined(a), nil
}

// bless declares the data whole, if no other client has.
func (b *backend) bless(ctx context.Context, send *call.Sender, w observed.Write) error {
	_, err := send.Do(ctx, call.Request{
		Script: &b.set().Bless,
		Args: func(int) script.Args {
			var a script.Args
			a.Text(w.Server, w.Claim)
			a.Int(b.opts.MaxTTL.Milliseconds())
			return a
		},
	})
	return err //nolint:wrapcheck // Open does
}

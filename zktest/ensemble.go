package zktest

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

// Ensemble is a running ZooKeeper of one or more members, each a process of its own.
// Its methods are safe for concurrent use.
type Ensemble struct {
	opts            Options
	java, classpath string
	dir             *testserver.Dir
	ca              *testnet.CA // this and the next two with Options.TLS
	keyStore        string      // of the servers
	tls             *tls.Config // of our own clients
	members         []*Member
	close           func() error

	mu   sync.Mutex
	cuts map[cut]bool // what is in effect
}

// New starts an ensemble for a test, and closes it after the test and all cleanups that
// were registered later. It fails the test if the ensemble does not start.
func New(t testing.TB, opts *Options) *Ensemble {
	t.Helper()
	e, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Start starts an ensemble and returns when every member serves clients. If a
// member's process ends, if there is no progress within Options.StartTimeout, or if ctx
// ends, Start returns the reason with the end of the member's log, and leaves nothing
// behind. ctx bounds only the start.
func Start(ctx context.Context, opts *Options) (*Ensemble, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	java, classpath, err := Find()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		e := newEnsemble(o, java, classpath)
		err := e.start(ctx)
		if err == nil {
			return e, nil
		}
		if attempt == 5 || !testserver.PortTaken(err) {
			return nil, err
		}
	}
}

func newEnsemble(opts Options, java, classpath string) *Ensemble {
	e := &Ensemble{opts: opts, java: java, classpath: classpath, cuts: make(map[cut]bool)}
	e.close = sync.OnceValue(e.shutdown)
	return e
}

// start is one attempt at Start, with ports of its own. It leaves nothing behind when it
// fails.
func (e *Ensemble) start(ctx context.Context) error {
	if err := e.prepare(ctx); err != nil {
		return errors.Join(err, e.Close(), e.discard())
	}
	progressing, cancel := testserver.Progressing(ctx, e.opts.StartTimeout, e.progress)
	defer cancel()
	if err := e.launch(progressing); err != nil {
		return errors.Join(err, e.Close(), e.discard())
	}
	return nil
}

// prepare makes everything that the members need before they can start.
func (e *Ensemble) prepare(ctx context.Context) (err error) {
	// Certificates need a directory of our own, even with Options.Dir.
	e.dir, err = testserver.MakeDir("zktest", !e.opts.Fsync)
	if err != nil {
		return err
	}
	if e.opts.TLS {
		if err := e.secure(); err != nil {
			return err
		}
	}
	return e.addMembers(ctx)
}

// progress grows while members start: with the log of each, and when one serves.
func (e *Ensemble) progress() (all int) {
	for _, m := range e.members {
		if m.ready.Load() {
			all++
		}
		p := m.running()
		if p != nil {
			all += p.StderrLen()
		}
	}
	return all
}

// launch starts all members, which have to find each other, and waits for them.
func (e *Ensemble) launch(ctx context.Context) error {
	for _, m := range e.members {
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	err := each(e.members, func(m *Member) error {
		err := m.waitReady(waiting)
		if err != nil {
			giveUp(err)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return context.Cause(waiting) // the first failure; the others were cancelled
	}
	return err
}

// Endpoints returns the client addresses of all members, "host:port", through the
// proxies if there are any.
func (e *Ensemble) Endpoints() []string {
	servers := make([]string, len(e.members))
	for i, m := range e.members {
		servers[i] = m.Endpoint()
	}
	return servers
}

// Len returns the number of members.
func (e *Ensemble) Len() int { return len(e.members) }

// Member returns member i, counted from 0. It panics if there is none.
func (e *Ensemble) Member(i int) *Member { return e.members[i] }

// CA returns the authority that signs the certificates of clients with Options.TLS; nil
// without Options.TLS.
func (e *Ensemble) CA() *testnet.CA { return e.ca }

// Close kills all members, without notice to clients or to each other, and removes what
// Start has made. Further calls return the first result. It takes some milliseconds.
func (e *Ensemble) Close() error { return e.close() }

func (e *Ensemble) shutdown() error {
	errs := []error{each(e.members, func(m *Member) error {
		m.close()
		return m.closeProxies()
	})}
	if e.dir != nil {
		errs = append(errs, e.dir.Remove())
	}
	return errors.Join(errs...)
}

// discard removes the data from Options.Dir.
func (e *Ensemble) discard() error {
	return each(e.members, func(m *Member) error { return os.RemoveAll(m.dir) })
}

// each calls f for all members at the same time and returns their errors.
func each(members []*Member, f func(*Member) error) error {
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = f(m) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Package health answers the readiness and liveness probes of a program with the state of
// its Sessions.
//
//	probes := health.New()
//	mux.Handle("/readyz", probes.Ready())
//	mux.Handle("/livez", probes.Live())
//
//	s, err := etcdbackend.Open(ctx, client, nil) // while the program already serves
//	probes.Add(s)
//
// # Which probe asks what
//
// Readiness asks whether the program can acquire locks now. It follows Session.Health: it
// fails while a Session has no live service session, and succeeds again by itself. Let it
// decide on traffic and on the pace of a rolling update.
//
// Liveness asks whether a restart would cure the program. In an outage of the service, a
// partition or an election it would not: a new process would find the same outage. It would
// have lost its place in every queue, and the requests of all restarted processes would
// reach the service at the moment at which that comes back. Nor would a restart cure a
// wrong password or a full store. Therefore liveness ignores all of these. It fails in one
// case: a Session is closed for good, because Close was called or the client of the service
// below it was closed. Then every request of the process fails with session.ErrClosed for
// as long as the process runs. A program that no longer answers HTTP requests fails both
// probes without any help.
//
// Close runs as a program ends, so liveness fails during the last moments of a program that
// serves while it closes its Sessions. Kubernetes ends the liveness probe of a pod before it
// sends SIGTERM; with other supervisors, close the Sessions last.
package health

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session"
)

// Probes answers the probes of one process, for all its Sessions. It is safe for
// concurrent use.
type Probes struct {
	mu       sync.Mutex
	sessions []*session.Session
}

// New returns the Probes for these Sessions. None is fine: serve the probes before the first
// Session is opened, and Add it later. A supervisor that finds no server at the address
// would restart the program, in an outage again and again.
func New(sessions ...*session.Session) *Probes {
	return &Probes{sessions: slices.Clone(sessions)}
}

// Add adds a Session. A nil Session counts as a closed one, as everywhere.
func (p *Probes) Add(s *session.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions = append(p.sessions, s)
}

// Ready returns the handler for the readiness probe. It answers 200 if every Session is
// ready, and 503 otherwise, or if there is no Session yet. The body is a Report.
//
// The handler sends nothing to the service and waits for nothing, so it answers at once
// in an outage too. If a service session was lost, the probe has the next one opened in the
// background, with a backoff, as Session.Health does: so a program that acquires no lock
// for a while becomes ready again too.
//
// It answers GET and HEAD, and other methods with 405. Any number of requests may run
// concurrently. The body shows labels and error texts, which can contain addresses of
// servers: serve it where only operators and supervisors can reach it.
func (p *Probes) Ready() http.Handler {
	return p.handler(func(r Report) bool {
		return len(r.Sessions) > 0 && !slices.ContainsFunc(r.Sessions, func(s Status) bool { return !s.Ready })
	})
}

// Live returns the handler for the liveness probe. It answers 200, also in an outage and
// before the first Session is opened, and 503 if a Session is closed for good. In all else
// it is like Ready.
func (p *Probes) Live() http.Handler {
	return p.handler(func(r Report) bool {
		return !slices.ContainsFunc(r.Sessions, func(s Status) bool { return s.Closed })
	})
}

// Report is the body of an answer, as JSON.
type Report struct {
	// OK reports whether the probe succeeds, as the status of the answer does.
	OK bool `json:"ok"`

	// Sessions are those of the process, in the order in which they were added.
	Sessions []Status `json:"sessions"`
}

// Status is the state of one Session.
type Status struct {
	// Label is session.Options.Label.
	Label string `json:"label,omitempty"`

	// Ready and Since are those of session.Health. Since is in UTC.
	Ready bool      `json:"ready"`
	Since time.Time `json:"since,omitzero"`

	// Left is the time to the deadline in seconds, 0 if the Session is not ready.
	Left float64 `json:"left"`

	// Closed reports that the Session is closed for good.
	Closed bool `json:"closed,omitempty"`

	// Error is why the Session is not ready.
	Error string `json:"error,omitempty"`
}

// report returns the state of all Sessions.
func (p *Probes) report() Report {
	p.mu.Lock()
	sessions := slices.Clone(p.sessions)
	p.mu.Unlock()
	r := Report{Sessions: make([]Status, len(sessions))}
	for i, s := range sessions {
		h := s.Health()
		r.Sessions[i] = Status{
			Label: s.Options().Label, Ready: h.Ready, Since: h.Since.UTC(), Left: h.Left.Seconds(),
			Closed: errors.Is(h.Err, session.ErrClosed),
		}
		if h.Err != nil {
			r.Sessions[i].Error = h.Err.Error()
		}
	}
	return r
}

// handler returns a handler that succeeds if ok is true for the report.
func (p *Probes) handler(ok func(Report) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "use GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		r := p.report()
		r.OK = ok(r)
		header.Set("Content-Type", "application/json")
		header.Set("X-Content-Type-Options", "nosniff")
		if !r.OK {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		body := json.NewEncoder(w)
		body.SetIndent("", "  ")
		_ = body.Encode(r) // the client may be gone
	})
}

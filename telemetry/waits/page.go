package waits

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"time"
)

const (
	usual  = 100 // requests that the page shows unless it is asked for more
	listed = 10  // requests of one group that it lists
)

// ServeHTTP answers with the requests that wait now:
//
//	GET …           as text, the 100 that have waited longest
//	GET …?n=1000    as text, more of them, at most 10 000
//	GET …?debug=0   as a profile for go tool pprof, of the 10 000 that have waited longest
//
// The text has a group for each lock and place of the program, in the order of the longest
// wait, with the stack from the call of the recipe on. If requests of this process hold the
// lock, it shows their stacks too: where they called Lock, not where they are now. Other
// processes that hold it are not known here; WithHolders and fairlock who show them.
//
// The profile has a sample for each group, with the number of waiters and the sum of their
// waiting times until now, and with the labels lock and kind and those of the caller.
//
// It sends nothing to the service, so it answers during an outage. It answers HEAD too, and
// other methods with 405. The page shows names of locks and of functions: serve it where
// only operators can reach it.
func (t *Table) ServeHTTP(w http.ResponseWriter, req *http.Request) { t.serve(w, req, nil) }

// serve is ServeHTTP. If read is not nil, it reads the holders with it.
func (t *Table) serve(w http.ResponseWriter, req *http.Request, read readQueue) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "use GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	n := usual
	text := req.FormValue("n")
	if text != "" {
		var err error
		n, err = strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			http.Error(w, fmt.Sprintf("n must be a number from 1 to %d", most), http.StatusBadRequest)
			return
		}
	}
	if req.FormValue("debug") == "0" {
		s := t.oldest(most)
		header.Set("Content-Type", "application/octet-stream")
		header.Set("Content-Disposition", `attachment; filename="waits.pb.gz"`)
		_ = s.profile(w, time.Now()) // the client may be gone
		return
	}
	s := t.oldest(n)
	var found atService
	if read != nil {
		found = s.readHolders(req.Context(), read)
	}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	out := bufio.NewWriter(w)
	s.text(out, found, time.Now())
	_ = out.Flush() // the client may be gone
}

// text writes the page. Names are quoted: they may contain any character.
func (s *snapshot) text(w io.Writer, found atService, now time.Time) {
	fmt.Fprintf(w, "%d waiting for a lock in this process, %d holding.", s.waiting, s.holding)
	if len(s.waits) > 0 {
		fmt.Fprintf(w, " The longest wait is %s.", round(s.waits[0].waited(now)))
	}
	if s.waiting > len(s.waits) {
		fmt.Fprintf(w, " Shown are the %d longest; ?n=%d shows more.", len(s.waits), min(most, 10*len(s.waits)))
	}
	fmt.Fprintln(w)
	for _, g := range s.groups() {
		first := &g.waits[0]
		fmt.Fprintf(w, "\n%q %s: %d waiting at\n", first.name, first.kind, len(g.waits))
		writeStack(w, "\t", first.stack)
		for i := 0; i < len(first.labels); i += 2 {
			fmt.Fprintf(w, "    label %q: %q\n", first.labels[i], first.labels[i+1])
		}
		for i := range g.waits[:min(listed, len(g.waits))] {
			g.waits[i].writeWait(w, now)
		}
		more := len(g.waits) - listed
		if more > 0 {
			fmt.Fprintf(w, "    and %d more, since a shorter time\n", more)
		}
		s.writeHolders(w, g, found, now)
	}
}

// writeWait writes the line of a request that waits.
func (r *request) writeWait(w io.Writer, now time.Time) {
	fmt.Fprintf(w, "    for %s, %s", round(r.waited(now)), r.mode)
	if r.weight > 0 {
		fmt.Fprintf(w, ", %d permits", r.weight)
	}
	if r.joined {
		fmt.Fprintf(w, ", %d ahead, token %s of session %s", r.ahead, r.token, r.session)
	} else {
		fmt.Fprint(w, ", not in the queue yet")
	}
	if r.rejoined > 0 {
		fmt.Fprintf(w, ", has lost its place %d times", r.rejoined)
	}
	fmt.Fprintln(w)
}

// writeHolders writes the holders of what a group waits for: the clients that were found at the
// service, and the requests of this process.
func (s *snapshot) writeHolders(w io.Writer, g *group, found atService, now time.Time) {
	lines, known := found.holders(g, now)
	for _, line := range lines {
		fmt.Fprintf(w, "    %s\n", line)
	}
	holders := s.holdersOf(&g.waits[0])
	for _, h := range holders[:min(listed, len(holders))] {
		fmt.Fprintf(w, "    held here for %s, %s, token %s of session %s, acquired at\n", round(max(0, now.Sub(h.granted))), h.mode, h.token, h.session)
		writeStack(w, "\t\t", h.stack)
	}
	more := len(holders) - listed
	switch {
	case more > 0:
		fmt.Fprintf(w, "    and by %d more holds of this process\n", more)
	case len(holders) == 0 && !known:
		fmt.Fprintln(w, "    not held in this process: fairlock who shows the holder")
	}
}

// writeStack writes a stack as runtime/debug does.
func writeStack(w io.Writer, indent string, stack []uintptr) {
	for _, f := range frames(stack) {
		fmt.Fprintf(w, "%s%s\n%s\t%s:%d\n", indent, function(f), indent, f.File, f.Line)
	}
}

// function returns the name of a frame's function.
func function(f runtime.Frame) string {
	if f.Function == "" {
		return "unknown"
	}
	return f.Function
}

// round shortens a duration for a person.
func round(d time.Duration) time.Duration {
	if d >= time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

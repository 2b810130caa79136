package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// writeTimeout is how long one write to a page may take: then the page is dropped. The
// browser connects again, and the page loads the whole state.
const writeTimeout = 10 * time.Second

// statePart is how many bytes of the state are one write.
const statePart = 32 << 10

// retry is how long a browser waits before it connects again.
const retry = 2 * time.Second

// allow sets the deadline of the writes that follow.
func (h *handler) allow(w http.ResponseWriter) error {
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if errors.Is(err, http.ErrNotSupported) {
		return nil // a server that has none, as in tests
	}
	return err //nolint:wrapcheck // of the connection
}

// events is a page that is open: a stream of server-sent events. First comes "hello",
// then one message for each tick. "resync" stands for ticks that are too long, or that
// the page was too slow for.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	leave, err := h.reader.join(r.Context(), remote(r))
	if err != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "ui: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{})                                    // it would end a page that only reads
	defer func() { _ = out.SetReadDeadline(time.Now().Add(bodyTimeout)) }() // the server reads the rest of the request
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events until there are many
	send := func(text string) bool {
		if h.allow(w) != nil {
			return false
		}
		_, err := fmt.Fprint(w, text)
		err = cmp.Or(err, out.Flush())
		_ = out.SetWriteDeadline(time.Time{}) // on HTTP/2 it would end the stream between two events
		return err == nil
	}
	seq, _ := h.reader.current()
	hello, err := json.Marshal(map[string]any{"build": h.build, "now": h.reader.now().UnixMilli()})
	if err != nil || !send(fmt.Sprintf("retry: %d\nevent: hello\ndata: %s\n\n", retry.Milliseconds(), hello)) || r.Method == http.MethodHead {
		return
	}
	for {
		ticks, newest, kept, over, changed := h.reader.after(seq)
		switch {
		case newest == seq && over:
			return
		case newest == seq:
			select {
			case <-r.Context().Done():
				return
			case <-changed:
			}
			continue
		case !kept:
			if !send("event: resync\ndata: {}\n\n") {
				return
			}
		default:
			var b strings.Builder
			for _, t := range ticks {
				b.WriteString("data: ")
				b.Write(t)
				b.WriteString("\n\n")
			}
			if !send(b.String()) {
				return
			}
		}
		seq = newest
	}
}

// remote returns the address of a client without its port.
func remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// lockState is what the page shows of a lock beyond its queue.
type lockState struct {
	Asked  bool   `json:"asked,omitempty"`  // this handler has a yield request for it
	Unread bool   `json:"unread,omitempty"` // the service has it or may have it, and no read was answered yet
	Err    string `json:"err,omitempty"`    // why the last read was denied or refused
	Holds  []hold `json:"holds"`
}

// lock serves the history of one lock, and has the reader read that lock first.
func (h *handler) lock(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	w.Header().Set("Cache-Control", "no-store")
	if err := h.check(name); err != nil {
		http.Error(w, "ui: "+oneLine(err), http.StatusBadRequest)
		return
	}
	holds, unread, failed := h.reader.want(name)
	h.reply(w, http.StatusOK, lockState{Asked: h.hasAsked(name), Unread: unread, Err: failed, Holds: holds})
}

// reply writes JSON.
func (h *handler) reply(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // strings and integers cannot fail
		code, text = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // a client that has gone needs no answer
}

// check returns why a name is none of a lock on this page, or nil.
func (h *handler) check(name string) error {
	if !strings.HasPrefix(name, h.Prefix) {
		return fmt.Errorf("the page shows only locks whose names begin with %q", h.Prefix)
	}
	return h.reader.inner.CheckName(name) //nolint:wrapcheck // it names the lock
}

// title returns the name of the service on the page.
func (h *handler) title() string {
	return plain(cmp.Or(h.Title, h.reader.inner.Info().Service, "closed"))
}

// oneLine returns the text of an error without line breaks.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

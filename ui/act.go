package ui

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

const (
	// bodyTimeout bounds how long a client may take to send a request, or the rest of one
	// that was refused.
	bodyTimeout = 10 * time.Second

	// actTimeout bounds an action, and mostBody the request for one.
	actTimeout = 10 * time.Second
	mostBody   = 16 << 10

	// tokenHeader carries the token of actions.
	tokenHeader = "X-Fairlock-Token"

	// gone is what an eviction answers for an entry that is not there. An attempt whose answer
	// was lost may have evicted it.
	gone = "is gone: it has ended by itself, or was evicted before"
)

// order is what an action is about.
type order struct {
	Lock   string `json:"lock"`
	ID     string `json:"id"`     // of evict: the entry that was shown
	Holder bool   `json:"holder"` // of evict: it held when the user was asked
	Reason string `json:"reason"` // of ask
}

// result is what came of an action, as a sentence.
type result struct {
	Text string `json:"text"`
}

// act checks a request for an action, and does it. In this order: the page allows actions
// at all, the method, the origin, the token, the body.
func (h *handler) act(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, r *http.Request, o order) (int, string)) {
	w.Header().Set("Cache-Control", "no-store")
	refuse := func(code int, why string) {
		w.Header().Set("Connection", "close") // or the server would read the rest of the body first
		h.reply(w, code, result{why})
	}
	switch {
	case !h.AllowEvict:
		refuse(http.StatusForbidden, "this page is read-only: start it with --allow-evict, or set Options.AllowEvict")
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "actions need POST")
		return
	}
	if err := h.origin.Check(r); err != nil {
		refuse(http.StatusForbidden, "the request comes from another origin")
		return
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(h.csrf)) != 1 {
		refuse(http.StatusForbidden, h.noToken())
		return
	}
	var o order
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	if err == nil {
		err = h.check(o.Lock)
	}
	if err != nil {
		refuse(http.StatusBadRequest, plain(oneLine(err)))
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it would end the context
	ctx, cancel := context.WithTimeout(r.Context(), actTimeout)
	defer cancel()
	code, text := do(ctx, r, o)
	h.reply(w, code, result{text})
}

// noToken is why an action without the token is refused.
func (h *handler) noToken() string {
	if h.Token == "" {
		return "the request has no valid token: load the page again"
	}
	return "the request has no valid token: open the whole address that was printed, with #token= at its end"
}

// evict deletes exactly the entry that the page has shown. It reads the queue again, and
// no other entry has the same identity. An entry that was a waiter in the question and holds by
// now stays: the user was not asked whether to break the lock.
func (h *handler) evict(ctx context.Context, r *http.Request, o order) (int, string) {
	queue, entries, err := inspect.Both(ctx, h.s, o.Lock)
	if err != nil {
		return failed(err), "no entry was evicted: " + plain(oneLine(err))
	}
	i := slices.IndexFunc(entries, func(e session.Entry) bool { return identity(e) == o.ID })
	if i < 0 {
		h.reader.hurry()
		return http.StatusConflict, "the entry " + gone
	}
	owner := plain(queue.Entries[i].Who())
	if entries[i].State == session.Holder && !o.Holder {
		h.reader.hurry()
		return http.StatusConflict, owner + " holds by now: no entry was evicted, look again"
	}
	err = h.s.Evict(ctx, entries[i])
	switch {
	case err == nil:
		h.Logger.Warn("fairlock ui: evicted", "lock", o.Lock, "token", int64(entries[i].Token), "owner", owner, "remote", r.RemoteAddr)
		h.reader.hurry()
		return http.StatusOK, fmt.Sprintf("evicted %s (token %d)", owner, entries[i].Token)
	case errors.Is(err, session.ErrGone):
		return http.StatusConflict, owner + " " + gone
	case errors.Is(err, session.ErrDenied), errors.Is(err, session.ErrRefused):
		return http.StatusForbidden, "no entry was evicted: " + plain(oneLine(err))
	}
	return failed(err), fmt.Sprintf("it is not known whether %s was evicted: %s", owner, plain(oneLine(err)))
}

// ask sends a yield request, which replaces an earlier one of this handler.
func (h *handler) ask(ctx context.Context, r *http.Request, o order) (int, string) {
	withdraw, err := yield.Send(ctx, h.s, o.Lock, o.Reason)
	switch {
	case errors.Is(err, yield.ErrInvalidReason):
		return http.StatusBadRequest, plain(oneLine(err))
	case err != nil:
		return failed(err), "no holder was asked: " + plain(oneLine(err))
	}
	h.forgetOld()
	h.mu.Lock()
	before := h.asked[o.Lock]
	h.asked[o.Lock] = withdraw
	h.mu.Unlock()
	if before != nil {
		_ = before() // it ends with the session at the latest
	}
	h.Logger.Info("fairlock ui: asked the holders to yield", "lock", o.Lock, "reason", o.Reason, "remote", r.RemoteAddr)
	h.reader.hurry()
	return http.StatusOK, "asked the holders to yield"
}

// withdraw withdraws the yield request that this handler has sent.
func (h *handler) withdraw(_ context.Context, r *http.Request, o order) (int, string) {
	h.mu.Lock()
	withdraw := h.asked[o.Lock]
	delete(h.asked, o.Lock)
	h.mu.Unlock()
	if withdraw == nil {
		return http.StatusConflict, "this page has no yield request for the lock: it was withdrawn, or ended with the session"
	}
	defer h.reader.hurry()
	if err := withdraw(); err != nil && !errors.Is(err, session.ErrGone) {
		return failed(err), "the yield request ends with the session of this page: " + plain(oneLine(err))
	}
	h.Logger.Info("fairlock ui: withdrew a yield request", "lock", o.Lock, "remote", r.RemoteAddr)
	return http.StatusOK, "the yield request is withdrawn"
}

// hasAsked reports whether this handler has a yield request for a lock.
func (h *handler) hasAsked(name string) bool {
	h.forgetOld()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[name] != nil
}

// forgetOld forgets yield requests that ended with an earlier service session.
func (h *handler) forgetOld() {
	health := h.s.Health()
	h.mu.Lock()
	defer h.mu.Unlock()
	if health.Ready && !health.Since.Equal(h.since) {
		if !h.since.IsZero() {
			clear(h.asked)
		}
		h.since = health.Since
	}
}

// failed is the code for an error of the service.
func failed(err error) int {
	switch {
	case errors.Is(err, session.ErrDenied):
		return http.StatusForbidden
	case errors.Is(err, session.ErrClosed), errors.Is(err, session.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

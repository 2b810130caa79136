package httpfence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/fairlock/fairlock/session"
)

// mostBody is how much of a refusal Check reads.
const mostBody = 64 << 10

// Check returns an error if a response is a refusal by Handler or Refuse because of a stale
// token: errors.Is reports true for fence.ErrStale, and errors.As finds a *fence.StaleError
// with both tokens. The lock was lost. The text also names the request and the resource. The
// body was read and closed then.
//
// For every other response Check returns nil and leaves the body alone. Also a 409 of another
// handler is none of ours.
func Check(response *http.Response) error {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // "" if it cannot be read
	if response.StatusCode != http.StatusConflict || kind != problemType {
		return nil
	}
	body := response.Body
	text, _ := io.ReadAll(io.LimitReader(body, mostBody)) // the next reader gets the error again
	var p problem
	whole := json.Unmarshal(text, &p) == nil
	stale := p.stale()
	if !whole || stale == nil {
		response.Body = restored{io.MultiReader(bytes.NewReader(text), body), body}
		return nil
	}
	_ = body.Close() // all that matters was read
	at := "request"
	r := response.Request
	if r != nil {
		at = r.Method + " " + r.URL.Redacted()
	}
	return fmt.Errorf("httpfence: %s: resource %q: %w", at, p.Resource, stale)
}

// restored is a body of which a part was read.
type restored struct {
	io.Reader
	io.Closer
}

// Transport adds the token of the hold that a request is made in to its headers. A request whose
// context is not that of a hold gets none; a header that is set already stays. The server of the
// request decides what it does without a token.
//
// The context of a hold that was lost still has its token, but is cancelled, so such a request
// is not sent. A Transport is safe for concurrent use.
type Transport struct {
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper

	// Lock returns the name of the lock that protects what a request accesses, as
	// session.HoldOf takes it. It is for programs that acquire one lock inside another. Nil
	// means the innermost hold, whatever it locks.
	Lock func(*http.Request) string
}

// RoundTrip implements http.RoundTripper. It does not turn a refusal into an error, which a
// RoundTripper must not do: see Check.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	h, ok := t.hold(r)
	if !ok || r.Header.Get(session.TokenHeader) != "" {
		return base.RoundTrip(r)
	}
	with := r.Clone(r.Context()) // a RoundTripper must not change the request
	Set(with.Header, h.Token(), h.Mode())
	return base.RoundTrip(with)
}

func (t *Transport) hold(r *http.Request) (h *session.Hold, ok bool) {
	if t.Lock == nil {
		return session.HoldFrom(r.Context())
	}
	return session.HoldOf(r.Context(), t.Lock(r))
}

// Set sets the headers for a token and the mode of its hold. It is for a request that is not made
// in the context of the hold.
func Set(header http.Header, t session.Token, mode session.Mode) {
	header.Set(session.TokenHeader, t.String())
	header.Del(ModeHeader)
	if mode == session.Shared {
		header.Set(ModeHeader, string(mode))
	}
}

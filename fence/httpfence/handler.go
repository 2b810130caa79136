package httpfence

import (
	"context"
	"errors"
	"net/http"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// Marks keeps the marks of resources. filefence.Folder is one.
type Marks interface {
	// Touch records a token for a resource in one step with its check. If the token is outbid,
	// it records nothing and returns a *fence.StaleError. Touch returns nil only if the record
	// outlives this process. It is called concurrently.
	Touch(ctx context.Context, resource string, t session.Token, mode session.Mode) error
}

// Options are the settings of a Handler. Nil is the same as the zero value.
type Options struct {
	// Missing is the status for a request without a token: 428 (Precondition Required) or
	// 400. 0 means 428.
	Missing int
}

// Handler returns a handler that checks the token of each request, and lets next serve the
// request if the token is not outbid.
//
// The function resource names what a request accesses. What one lock protects is one resource:
// two resources must not share a name, and one must not have two. A request for which it
// returns "" needs no token and goes to next. It is called concurrently.
//
// Other requests are answered without next: 409 if the token is outbid, Options.Missing if there
// is none, 400 if the header is no token, and 503 if marks has failed. Requests with the same
// token are all served. A request counts as seen even if next fails.
func Handler(next http.Handler, marks Marks, resource func(*http.Request) string, o *Options) http.Handler {
	h := &handler{next: next, marks: marks, resource: resource, missing: http.StatusPreconditionRequired}
	if o != nil && o.Missing != 0 {
		h.missing = o.Missing
	}
	return h
}

type handler struct {
	next     http.Handler
	marks    Marks
	resource func(*http.Request) string
	missing  int
	serving  serving
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := h.resource(r)
	if resource == "" {
		h.next.ServeHTTP(w, r)
		return
	}
	a, err := accessOf(r)
	if err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, errMissing) {
			status = h.missing
		}
		write(w, problem{Status: status, Detail: err.Error(), Resource: resource})
		return
	}
	// Check the token after waiting for another request's work, not before.
	done := h.serving.begin(resource, a.mode)
	defer done()
	if r.Context().Err() != nil {
		return // the client has gone while it waited
	}
	err = h.marks.Touch(r.Context(), resource, a.token, a.mode)
	switch {
	case err == nil:
		h.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accessKey{}, a)))
	case !Refuse(w, resource, err):
		write(w, problem{Status: http.StatusServiceUnavailable, Detail: "the marks of the tokens: " + err.Error(), Resource: resource})
	}
}

// access is what a request shows of its hold.
type access struct {
	token session.Token
	mode  session.Mode
}

// accessKey is the key of the access in the context of a request that is served.
type accessKey struct{}

// Access returns the token and mode that Handler has accepted for a request, from the context of
// the request. ok is false in any other context.
func Access(ctx context.Context) (t session.Token, mode session.Mode, ok bool) {
	a, ok := ctx.Value(accessKey{}).(access)
	return a.token, a.mode, ok
}

// Refuse answers a request whose token a check at the data has refused: if err is a
// *fence.StaleError, it writes a response as Handler does, and returns true.
func Refuse(w http.ResponseWriter, resource string, err error) bool {
	stale, ok := errors.AsType[*fence.StaleError](err)
	if !ok {
		return false
	}
	write(w, refusal(resource, stale))
	return true
}

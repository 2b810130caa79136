package httpfence

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// ModeHeader is the HTTP header that has the mode of a shared hold. It is absent for other holds.
const ModeHeader = "Fairlock-Mode"

// problemType is the media type of a refusal, and staleType the identifier of one whose token
// is outbid.
const (
	problemType = "application/problem+json"
	staleType   = "https://github.com/fairlock/fairlock/fence#stale"
)

var errMissing = errors.New("the header " + session.TokenHeader + " is missing: the request must show the token of the hold that it is made in")

// accessOf reads the headers of a request.
func accessOf(r *http.Request) (access, error) {
	a := access{mode: session.Exclusive}
	text := r.Header.Values(session.TokenHeader)
	switch len(text) {
	case 0:
		return a, errMissing
	case 1:
	default:
		return a, fmt.Errorf("the header %s is there %d times", session.TokenHeader, len(text))
	}
	var err error
	a.token, err = session.ParseToken(text[0])
	if err != nil {
		return a, fmt.Errorf("the header %s: %w", session.TokenHeader, err)
	}
	mode := r.Header.Get(ModeHeader)
	switch session.Mode(mode) {
	case "", session.Exclusive:
	case session.Shared:
		a.mode = session.Shared
	default:
		return a, fmt.Errorf("the header %s: %.64q is no mode", ModeHeader, mode)
	}
	return a, nil
}

// problem is the body of a refusal, in the form of RFC 9457.
type problem struct {
	Type     string       `json:"type,omitempty"`
	Title    string       `json:"title"`
	Status   int          `json:"status"`
	Detail   string       `json:"detail"`
	Resource string       `json:"resource"`
	Token    string       `json:"token,omitempty"`
	Mode     session.Mode `json:"mode,omitempty"`
	Seen     string       `json:"seen,omitempty"`
}

func refusal(resource string, e *fence.StaleError) problem {
	return problem{
		Type: staleType, Title: "Stale token", Status: http.StatusConflict,
		Detail:   fmt.Sprintf("%s token %d refused: token %d was seen", e.Mode, e.Token, e.Seen),
		Resource: resource, Token: e.Token.String(), Mode: e.Mode, Seen: e.Seen.String(),
	}
}

// stale returns the error that a refusal was made from, or nil if the problem is another one.
func (p problem) stale() *fence.StaleError {
	if p.Type != staleType {
		return nil
	}
	token, _ := session.ParseToken(p.Token) // 0 if it is none
	seen, _ := session.ParseToken(p.Seen)
	if token == 0 || seen == 0 {
		return nil
	}
	return &fence.StaleError{Token: token, Mode: p.Mode, Seen: seen}
}

func write(w http.ResponseWriter, p problem) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may have gone
}

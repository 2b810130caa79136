package fence

import (
	"sync"

	"github.com/fairlock/fairlock/session"
)

// Gate stands before a resource in the process that owns it, and lets in who
// shows a token that is not outbid. The zero Gate has seen nobody. Its methods
// may be called from any goroutine. It must not be copied after first use.
type Gate struct {
	work sync.RWMutex // held while somebody is in; taken before mu

	mu    sync.Mutex // of the marks, which those who share all raise
	marks Marks
}

// NewGate returns a gate that has seen what another one had, before a restart.
func NewGate(m Marks) *Gate { return &Gate{marks: m} }

// Do runs fn if the token is not outbid, and remembers the token from then on,
// whatever fn returns. While fn runs nobody else is in, but for others who share
// if this one does. It returns fn's error, or a *StaleError, or what Marks.Touch
// says of a bad token; then fn was not called.
//
// fn is given the marks, to be stored with what it does. Among several who share,
// a later one may have older marks: let storing them never lower a mark. fn must
// not call the gate, and should be short.
func (g *Gate) Do(t session.Token, mode session.Mode, fn func(Marks) error) error {
	if mode == session.Shared {
		g.work.RLock()
		defer g.work.RUnlock()
	} else {
		g.work.Lock()
		defer g.work.Unlock()
	}
	// Who waited for another's work is looked at after it, not before.
	marks, err := g.touch(t, mode)
	if err != nil {
		return err
	}
	return fn(marks)
}

// Admit is Do with nothing to do: a touch. It shuts out whoever held before, and
// promises nothing of what the caller does next, because a newer holder may come
// in between: what has an effect, or reads, belongs into Do.
func (g *Gate) Admit(t session.Token, mode session.Mode) error {
	return g.Do(t, mode, func(Marks) error { return nil })
}

// touch remembers the token, or refuses it.
func (g *Gate) touch(t session.Token, mode session.Mode) (Marks, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var err error
	g.marks, err = g.marks.Touch(t, mode)
	return g.marks, err
}

// Marks returns what the gate has seen, to be stored and given to NewGate. It
// waits for nobody's work.
func (g *Gate) Marks() Marks {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.marks
}

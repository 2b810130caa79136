package fence

import (
	"sync"

	"github.com/fairlock/fairlock/session"
)

// Gate guards a resource in the process that owns it. It admits a caller whose token is
// not outbid. The zero Gate has seen no token. Its methods are safe for concurrent use.
// It must not be copied after first use.
type Gate struct {
	work sync.RWMutex // held while a fn runs; locked before mu

	mu    sync.Mutex // of the marks, which concurrent shared holds raise
	marks Marks
}

// NewGate returns a gate that has seen what another one had, for example before a
// restart.
func NewGate(m Marks) *Gate { return &Gate{marks: m} }

// Do calls fn if the token is not outbid, and remembers the token from then on,
// whatever fn returns. While fn runs, no other fn runs, except those of other shared
// holds if this one is shared. Do returns fn's error, a *StaleError, or the error of
// Marks.Touch for an invalid token; fn was not called in the last two cases.
//
// fn receives the marks, to be stored with its work. Among shared holds a later fn may
// receive older marks, so never let storing them lower a mark. fn must not call the
// gate, and should be short.
func (g *Gate) Do(t session.Token, mode session.Mode, fn func(Marks) error) error {
	if mode == session.Shared {
		g.work.RLock()
		defer g.work.RUnlock()
	} else {
		g.work.Lock()
		defer g.work.Unlock()
	}
	// Check the token after waiting for another hold's work, not before.
	marks, err := g.touch(t, mode)
	if err != nil {
		return err
	}
	return fn(marks)
}

// Admit is Do without work. It shuts out earlier holders, and promises nothing about
// what the caller does next, because a newer holder may come in between: an access that
// reads or has an effect belongs into Do.
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

// Marks returns what the gate has seen, to be stored and given to NewGate. It does not
// wait for a running fn.
func (g *Gate) Marks() Marks {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.marks
}

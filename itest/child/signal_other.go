//go:build !unix

package child

import "testing"

// Stop fails the test: there is no way here to stop a process and let it go on.
func (p *Process) Stop(t testing.TB) { t.Fatal("this system cannot stop a process") }

// Continue has nothing to do.
func (p *Process) Continue(testing.TB) {}

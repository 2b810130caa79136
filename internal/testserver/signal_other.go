//go:build !unix

package testserver

import "errors"

// Pause fails: there is no such signal here.
func (p *Process) Pause() error { return errors.ErrUnsupported }

// Resume fails: there is no such signal here.
func (p *Process) Resume() error { return errors.ErrUnsupported }

// Terminate fails: there is no such signal here.
func (p *Process) Terminate() error { return errors.ErrUnsupported }

//go:build !unix

package pgtest

import "syscall"

// serverUser is the user of this process.
type serverUser struct{ other bool }

func findServerUser() (serverUser, error) { return serverUser{}, nil }

func (serverUser) own(string) error { return nil }

func (serverUser) attributes() *syscall.SysProcAttr { return nil }

func (serverUser) explain(err error) error { return err }

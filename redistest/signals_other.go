//go:build !unix

package redistest

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(int) {}

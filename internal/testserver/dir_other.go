//go:build !linux

package testserver

func lockDir(string) (unlock func(), err error) { return func() {}, nil }

func sweep(_, _ string) {}

// freeBytes returns 0: only Linux has a file system in memory at a known place.
func freeBytes(string) uint64 { return 0 }

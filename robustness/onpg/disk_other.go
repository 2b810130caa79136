//go:build !linux

package onpg

import "errors"

// disk is a file system of its own, which only Linux has here.
type disk struct{}

func newDisk() (*disk, error) { return nil, nil } //nolint:nilnil // no disk of its own

func (*disk) folder() string { return "" }

func (*disk) fill() error { return errors.ErrUnsupported }

func (*disk) free() error { return nil }

func (*disk) close() error { return nil }

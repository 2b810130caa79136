//go:build !unix

package demo

import "errors"

const supported = false

var errNoSignals = errors.New("no such signal here")

func pause(*process) error { return errNoSignals }

func resume(*process) error { return errNoSignals }

func wake(*process) {}

func slain(error) bool { return false }

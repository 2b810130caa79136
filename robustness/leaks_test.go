//go:build !failpoints

package main

import (
	"testing"

	"go.uber.org/goleak"
)

// verify runs the tests, and fails if they leave goroutines.
func verify(m *testing.M) { goleak.VerifyTestMain(m) }

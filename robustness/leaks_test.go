//go:build !failpoints

package main

import (
	"testing"

	"go.uber.org/goleak"
)

// verify runs the tests, and looks for goroutines that they have left.
func verify(m *testing.M) { goleak.VerifyTestMain(m) }

//go:build !unix

package itest

import "testing"

// stopProcess fails the test: there is no way here to stop a process and let it
// go on.
func stopProcess(t testing.TB, _ int) { t.Fatal("this system cannot stop a process") }

func continueProcess(testing.TB, int) {}

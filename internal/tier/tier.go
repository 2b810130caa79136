// Package tier decides which test cases a run includes. "make test" runs each case
// where it can fail, once; "make test-all" runs every case everywhere. The rule is
// in docs/testing.md, section "What runs where".
package tier

import (
	"hash/fnv"
	"os"
	"testing"
)

// Env is the environment variable that "make test-all" sets to "all".
const Env = "FAIRLOCK_TESTS"

// All reports whether every case is to run.
func All() bool { return os.Getenv(Env) == "all" }

// Seldom skips a test unless every case is to run. It is for tests of what other
// programs do, which changes only with their versions.
func Seldom(t testing.TB) {
	if !All() {
		t.Skip("only make test-all runs this")
	}
}

// Pick returns all of several services, or if not all cases are to run the one
// whose turn it is: always the same for a case, and each for about as many cases.
func Pick(name string, services ...string) []string {
	if All() {
		return services
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return services[h.Sum32()%uint32(len(services)):][:1]
}

// Package house checks the rules of this project's own tree: which package may
// import which, how long a file may be, and that its pages and its code agree.
package house

import "testing"

// atRoot runs a test in the root of the tree. TestMain must not change the
// directory: go test does not notice what happens before M.Run, would look for the
// files that a test opens in the wrong place, and would return a cached result
// after a file has changed.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

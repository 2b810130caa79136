// Package house holds what this project asks of its own tree: which package may
// import which, how long a file may be, and that its pages and its code agree.
package house

import "testing"

// atRoot lets a test see the tree from its root. It is not TestMain that changes
// the directory: go test does not notice what happens before M.Run, would look for
// the files that a test opens in the wrong place, and would return a cached result
// after a file has changed.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

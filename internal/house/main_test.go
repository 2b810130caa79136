// Package house holds what this project asks of its own tree: which package may
// import which, how long a file may be, and that its pages and its code agree.
package house

import (
	"fmt"
	"os"
	"testing"
)

// TestMain has every test see the tree from its root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

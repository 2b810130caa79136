package zookeeper

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/itest/child"
)

// TestMain runs the tests and then looks for goroutines that they left, without
// any exception. Some tests start this binary again as a client process of its
// own, which can be stopped and killed; see package child.
func TestMain(m *testing.M) {
	if code, isChild := child.Run(openChild); isChild {
		os.Exit(code)
	}
	goleak.VerifyTestMain(tidied{m})
}

// tidied gives back what tests share before the look for leaks.
type tidied struct{ *testing.M }

func (m tidied) Run() int {
	code := m.M.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

package zookeeper

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests and then looks for goroutines that they left, without
// any exception.
func TestMain(m *testing.M) {
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

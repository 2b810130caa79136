package etcd

import (
	"fmt"
	"os"
	"testing"
	"time"

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
	// Between embedded members that are not behind proxies etcd keeps some
	// connections for up to 5 s.
	for end := time.Now().Add(10 * time.Second); code == 0 && time.Now().Before(end); {
		if goleak.Find() == nil {
			break
		}
	}
	return code
}

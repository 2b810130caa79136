package job

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/progtest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "guard" { // see supervise.Spec
		if err := supervise.Guard(os.Stdin); err != nil {
			os.Exit(1)
		}
		return
	}
	progtest.ResetSignals()
	goleak.VerifyTestMain(m)
}

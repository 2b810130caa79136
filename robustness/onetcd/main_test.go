package onetcd_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/trial"
)

// TestMain runs the tests and then looks for goroutines that they left. Some start
// this binary again as a client process.
func TestMain(m *testing.M) {
	if code, isChild := trial.Child(map[string]trial.Opener{onetcd.Name: onetcd.OpenChild}); isChild {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

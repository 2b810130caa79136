package onredis_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/trial"
)

// TestMain runs the tests and then looks for goroutines that they left. Some start
// this binary again as a client process.
func TestMain(m *testing.M) {
	if code, isChild := trial.Child(map[string]trial.Opener{onredis.Name: onredis.OpenChild}); isChild {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

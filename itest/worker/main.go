package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the main function of tests, some of which start this binary again as a client
// process, whose client open makes. After the tests it calls tidy, which closes what they
// share, and checks that no goroutine is left.
func Main(m *testing.M, open func(context.Context, Job) (*Client, error), tidy func() error) {
	if code, isWorker := run(open); isWorker {
		os.Exit(code)
	}
	goleak.VerifyTestMain(tidied{m, tidy})
}

type tidied struct {
	*testing.M
	tidy func() error
}

// Run runs the tests, and closes what they share before the check for leaks.
func (t tidied) Run() int {
	code := t.M.Run()
	if err := t.tidy(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// run does the job that this process was started for, and returns its exit code; false if
// this process runs the tests.
func run(open func(context.Context, Job) (*Client, error)) (code int, isWorker bool) {
	arg := os.Getenv(env)
	if arg == "" {
		return 0, false
	}
	var j Job
	err := json.Unmarshal([]byte(arg), &j)
	if err == nil {
		err = j.run(open)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

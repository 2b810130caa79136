package job

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session/driver"
)

func TestAReporterWaitsForNoReaderAndNamesWhatItLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stderr, in := io.Pipe()
		r := &reporter{name: "a", err: newOutbox(in), changed: make(chan struct{}, 1)}
		var want strings.Builder
		for i := range 1 + maxUnwritten + 3 {
			r.info("%d", i)
			synctest.Wait() // the goroutine takes the first
			if i <= maxUnwritten {
				fmt.Fprintf(&want, "fairlock: a: %d\n", i)
			}
		}
		began := time.Now()
		r.flush()
		assert.Equal(t, flushTimeout, time.Since(began))
		var got strings.Builder
		done := make(chan struct{})
		go func() { // ends with the pipe
			defer close(done)
			_, _ = io.Copy(&got, stderr)
		}()
		synctest.Wait()

		r.info("read again")
		r.info("and on")

		r.close()
		require.NoError(t, in.Close())
		<-done
		want.WriteString("fairlock: 3 messages are left out here: the reader did not read\n" +
			"fairlock: a: read again\nfairlock: a: and on\n")
		assert.Equal(t, want.String(), got.String())
	})
}

func TestStatesThatNothingReadsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		states, statesIn := io.Pipe()
		var got strings.Builder
		r := &reporter{name: "a", clock: driver.SystemClock(), err: newOutbox(&got), status: newOutbox(statesIn)}
		for range 1 + maxUnwritten + 3 {
			r.report(schema.StateHeld, nil)
			synctest.Wait()
		}

		require.NoError(t, states.Close())
		r.close()
		synctest.Wait()
		assert.Equal(t, "fairlock: a: nothing reads --status-fd: states are left out\n", got.String())
	})
}

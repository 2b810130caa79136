package session

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A request that waits may log while Close ends the reports. The race detector sees
// what the test does not.
func TestNothingIsReportedAfterTheEnd(t *testing.T) {
	for range 1000 {
		var r reports
		var mu sync.Mutex
		over := false
		var adders sync.WaitGroup
		for range 4 {
			adders.Go(func() {
				r.add(&report{call: func() {
					mu.Lock()
					defer mu.Unlock()
					assert.False(t, over, "reported after the end")
				}})
			})
		}
		r.finish()
		mu.Lock()
		over = true
		mu.Unlock()
		adders.Wait()
	}
}

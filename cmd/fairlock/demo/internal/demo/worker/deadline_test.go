package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
)

func TestAHoldLastsUntilItsDeadlineIfTheProcessStoodStill(t *testing.T) {
	at := func(d time.Duration) stamp.Stamp { return stamp.Stamp(d) }
	d := &deadline{at: at(time.Second)}
	assert.Equal(t, at(time.Second), d.read(at(time.Second), 2*time.Second), "it is not over")
	assert.Equal(t, at(2*time.Second), d.read(at(2*time.Second), 2*time.Second), "and was renewed")

	assert.Equal(t, at(4*time.Second), d.read(at(9*time.Second), 0), "it stood still")
	assert.Equal(t, at(5*time.Second), d.read(at(10*time.Second), 0), "and then was late")

	d = &deadline{at: at(time.Second)}
	d.read(at(time.Second), 2*time.Second)
	assert.Equal(t, at(2*time.Second), d.read(at(2*time.Second), 0), "evicted before its deadline")
	d = &deadline{at: at(time.Second)}
	assert.Equal(t, at(time.Second), d.read(at(9*time.Second), 0), "over when it was granted")
}

package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

func TestAFirstKeyIsWrittenBehindTwoAndWatchedBehindThree(t *testing.T) {
	for ahead, want := range map[int64]string{0: "", 1: "", 2: "", 3: "r/%v2/x/%first/def.0"} {
		qs := remembered()
		o, _ := qs.reserve(&driver.JoinRequest{Queue: "x"})
		qs.made(o, 5, false, ahead)
		target := func(key string) string {
			return qs.target(driver.Ref{Queue: "x", Key: key, Place: 4}.Target()).First
		}
		assert.Equal(t, want, target("r/x/def.0"), "%d are ahead", ahead)
		assert.Equal(t, ahead > 1, o.writesFirst, "the one behind has one more ahead")
		assert.Empty(t, target("r/x/by-hand"), "other programs write nothing")
		assert.Empty(t, qs.target(o.ref.Target()).First, "the answer to its Leave shows it")
	}
	qs := remembered()
	o, _ := qs.reserve(&driver.JoinRequest{Queue: "x", Mode: driver.Weighted})
	qs.made(o, 5, false, 9)
	assert.False(t, o.writesFirst || o.q.watchesFirst, "a request for permits does not wait for the one ahead")
}

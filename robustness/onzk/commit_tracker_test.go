package onzk

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTransactionsInTheLogsOfAMajorityAreCommitted(t *testing.T) {
	for _, last := range [][]int64{{5, 7, 9}, {9, 5, 7}, {7, 7, 5}, {7, 9, 0}} {
		assert.EqualValues(t, 7, committedByMajority(last))
	}
	assert.EqualValues(t, 3, committedByMajority([]int64{1, 2, 3, 4, 5}))
}

package etcdtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLeaderHasAMajorityInAnyOrderOfAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answers []answer
		want    uint64
	}{
		"the old leader answers last": {[]answer{{3, 3}, {2, 1}, {1, 1}, {4, 3}, {5, 3}}, 3},
		"the leader answers last":     {[]answer{{1, 1}, {2, 3}, {4, 3}, {3, 3}}, 3},
		"two of five follow":          {[]answer{{3, 3}, {4, 3}, {1, 1}}, 0},
		"the leader does not answer":  {[]answer{{1, 3}, {2, 3}, {4, 3}, {5, 3}}, 0},
		"an election":                 {[]answer{{1, 0}, {2, 0}, {4, 0}, {5, 0}}, 0},
		"not ready yet":               {[]answer{{0, 0}, {0, 0}, {0, 0}, {0, 0}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, leading(c.answers, 5))
		})
	}
}

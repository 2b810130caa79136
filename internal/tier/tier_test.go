package tier_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/tier"
)

func TestPickTakesEachServiceInTurn(t *testing.T) {
	t.Setenv(tier.Env, "")
	turns := map[string]int{}
	for i := range 100 {
		name := fmt.Sprint("Test", i)
		got := tier.Pick(name, "etcd", "zk")
		assert.Len(t, got, 1)
		assert.Equal(t, got, tier.Pick(name, "etcd", "zk"))
		turns[got[0]]++
	}
	assert.Greater(t, turns["etcd"], 30)
	assert.Greater(t, turns["zk"], 30)

	t.Setenv(tier.Env, "all")

	assert.True(t, tier.All())
	assert.Equal(t, []string{"etcd", "zk"}, tier.Pick("Test0", "etcd", "zk"))
}

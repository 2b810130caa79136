package etcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/itest/child"
)

// TestEveryRecipeOutlivesItsProcesses kills processes that hold and that wait.
func TestEveryRecipeOutlivesItsProcesses(t *testing.T) {
	cluster, client, root := shared.use(t)
	t.Run("recipes", func(t *testing.T) {
		for _, recipe := range child.Recipes() {
			t.Run(recipe, func(t *testing.T) {
				t.Parallel()
				child.Job{Servers: cluster.Endpoints(), Root: root, Name: recipe, Recipe: recipe, TTL: 2 * time.Second}.Crashes(t, 4, 4)
			})
		}
	})
	b, err := etcdbackend.NewBackend(client, &etcdbackend.Options{Root: root})
	require.NoError(t, err)
	names, err := b.Names(t.Context(), "")
	require.NoError(t, err)
	assert.Empty(t, names, "lines with somebody in them")
}

package zookeeper

import (
	"testing"
	"time"

	"github.com/fairlock/fairlock/itest/child"
)

// TestEveryRecipeOutlivesItsProcesses kills processes that hold and that wait.
func TestEveryRecipeOutlivesItsProcesses(t *testing.T) {
	t.Parallel()
	e, root := shared.use(t)
	lookout := lookAt(t, e, root)
	t.Run("recipes", func(t *testing.T) {
		for _, recipe := range child.Recipes() {
			t.Run(recipe, func(t *testing.T) {
				t.Parallel()
				child.Job{Servers: e.Servers(), Root: root, Name: recipe, Recipe: recipe, TTL: 2 * time.Second}.Crashes(t, 4, 4)
			})
		}
	})
	lookout.seesNothingLeft(t)
}

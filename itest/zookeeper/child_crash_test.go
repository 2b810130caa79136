package zookeeper

import (
	"testing"
	"time"

	"github.com/fairlock/fairlock/itest/child"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// TestEveryRecipeOutlivesItsProcesses kills processes that hold and that wait.
func TestEveryRecipeOutlivesItsProcesses(t *testing.T) {
	t.Parallel()
	e, root := shared.use(t)
	conn := e.Conn(t)
	t.Run("recipes", func(t *testing.T) {
		for _, recipe := range child.Recipes() {
			t.Run(recipe, func(t *testing.T) {
				t.Parallel()
				child.Job{Servers: e.Servers(), Root: root, Name: recipe, Recipe: recipe, TTL: 2 * time.Second}.Crashes(t, 4, 4)
			})
		}
	})
	recipetest.Until(t, "nothing left", func() bool { return len(entriesBelow(t, conn, root)) == 0 })
}

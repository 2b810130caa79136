package zookeeper

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
)

// TestTheEndOfAHolderIsReportedDespiteAForeignNode has another client put a node where
// an entry will record that it was admitted. That node stays when the entry goes, unless
// the owner deletes it. Those that wait for the end of holders are notified.
func TestTheEndOfAHolderIsReportedDespiteAForeignNode(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	m := &foreignClient{conn: e.Client(t), root: root}
	waiter := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	for how, end := range map[string]func(*testing.T, *owner, driver.Joined){
		"leaves":  func(t *testing.T, o *owner, j driver.Joined) { require.NoError(t, o.quit(t, j)) },
		"deleted": func(t *testing.T, _ *owner, j driver.Joined) { require.NoError(t, m.conn.Delete(j.Entry.Key, -1)) },
	} {
		t.Run(how, func(t *testing.T) {
			o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
			j := o.joinWith(t, driver.JoinRequest{Queue: how, Mode: driver.Weighted, Weight: 1})
			m.put(t, how, "holders/"+guidOf(j.Entry.Key), "")
			for range 2 { // the first answer was lost, perhaps
				o.admit(t, j.Entry.Ref)
			}
			require.Len(t, children(t, m.conn, m.path(how, "holders")), 1, "the other client's")
			all := waiter.queue(t, how).Entries
			require.Len(t, all, 1)
			assert.Equal(t, driver.MarkAdmitted, all[0].Marks)

			o.changes(t, j.Entry.Target()) // as holders do
			over := waiter.changes(t, driver.Target{Kind: driver.OfHolders, Queue: how})
			end(t, o, j)
			recipetest.Wait(t, over, "an event about the end")
			recipetest.Until(t, "its node goes with it", func() bool {
				return len(children(t, m.conn, m.path(how, "holders"))) == 0
			})
		})
	}
}

// changes returns a channel that gets the changes of a target, once its watch is armed.
func (o *owner) changes(t *testing.T, target driver.Target) <-chan struct{} {
	t.Helper()
	armed, changed := make(chan struct{}, 8), make(chan struct{}, 8)
	t.Cleanup(o.Watch(target, func(ev driver.Event) {
		switch ev.Kind {
		case driver.Armed:
			armed <- struct{}{}
		case driver.Changed:
			changed <- struct{}{}
		case driver.Gone, driver.Lost:
		}
	}))
	recipetest.Wait(t, armed, "a watch")
	return changed
}

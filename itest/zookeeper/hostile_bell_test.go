package zookeeper

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
)

// beside is where something lies that belongs to a line.
func (m *meddler) beside(line, what string) string { return m.root + "/%beside/" + line + "/" + what }

// TestAHolderWhoseNoteIsAStrangersIsMissedAllTheSame has somebody put a node where
// an entry will note that it was admitted. That node stays when the entry goes.
// Who waits for the end of holders is told of it, however it comes.
func TestAHolderWhoseNoteIsAStrangersIsMissedAllTheSame(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	m := &meddler{conn: e.Client(t), root: root}
	waiter := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	for put, below := range map[string][]string{"a node": {""}, "a node with another in it": {"", "/child"}} {
		for how, end := range map[string]func(*testing.T, *owner, driver.Joined){
			"leaves":     func(t *testing.T, o *owner, j driver.Joined) { require.NoError(t, o.quit(t, j)) },
			"is deleted": func(t *testing.T, _ *owner, j driver.Joined) { require.NoError(t, m.conn.Delete(j.Entry.Key, -1)) },
			"is closed":  func(t *testing.T, o *owner, _ driver.Joined) { require.NoError(t, o.Close(recipetest.Bounded(t))) },
		} {
			t.Run(put+", and the entry "+how, func(t *testing.T) {
				o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
				line := strings.ReplaceAll(put+how, " ", "")
				j, err := o.Join(recipetest.Bounded(t), driver.JoinRequest{Line: line, Mode: driver.Weighted, Weight: 1, Limit: 1})
				require.NoError(t, err)
				note := "holders/" + nodeOf(j.Entry.Key)
				for _, b := range below {
					m.put(t, line, note+b, "")
				}
				for range 2 { // the first answer was lost, perhaps
					require.NoError(t, o.Admit(recipetest.Bounded(t), j.Entry.Ref))
				}
				names := children(t, m.conn, path.Dir(m.beside(line, note)))
				require.Len(t, names, 2, "the stranger's and one of its own")

				o.listen(t, driver.WatchRequest{Ref: j.Entry.Ref, Own: true}) // as holders do
				over := waiter.listen(t, driver.WatchRequest{Ref: driver.Ref{Line: line, Place: 1 << 40}, Of: driver.OfAdmitted})
				end(t, o, j)
				recipetest.Wait(t, over, "word of the end")
				for _, b := range slices.Backward(below) {
					if err := m.conn.Delete(m.beside(line, note+b), -1); err != nil { // by the owner, who took it for his
						require.ErrorIs(t, err, zk.ErrNoNode)
					}
				}
				recipetest.Until(t, "its own goes with it", func() bool {
					return len(children(t, m.conn, path.Dir(m.beside(line, note)))) == 0
				})
			})
		}
	}
}

// listen is how a watch tells of changes, once it stands.
func (o *owner) listen(t *testing.T, req driver.WatchRequest) <-chan struct{} {
	t.Helper()
	armed, changed := make(chan struct{}, 8), make(chan struct{}, 8)
	t.Cleanup(o.Watch(req, func(ev driver.Event) {
		switch ev.Kind {
		case driver.Armed:
			armed <- struct{}{}
		case driver.Changed:
			changed <- struct{}{}
		case driver.Gone, driver.Broken:
		}
	}))
	recipetest.Wait(t, armed, "a watch")
	return changed
}

// TestANoteOfItsOwnShowsAHolder: what a stranger has put in its place and taken
// away again makes no difference.
func TestANoteOfItsOwnShowsAHolder(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	m := &meddler{conn: e.Client(t), root: root}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	j, err := o.Join(recipetest.Bounded(t), driver.JoinRequest{Line: "gpu", Mode: driver.Weighted, Weight: 1, Limit: 1})
	require.NoError(t, err)
	note := "holders/" + nodeOf(j.Entry.Key)
	m.put(t, "gpu", note, "")
	require.NoError(t, o.Admit(recipetest.Bounded(t), j.Entry.Ref))
	require.NoError(t, m.conn.Delete(m.beside("gpu", note), -1))
	v, err := o.Look(recipetest.Bounded(t), driver.LookRequest{Line: "gpu", Upto: j.Entry.Place, Limit: true})
	require.NoError(t, err)
	require.Len(t, v.Entries, 1)
	assert.True(t, v.Entries[0].Admitted)
}

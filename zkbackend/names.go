package zkbackend

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// walk lists the folders below the root, except where no name can begin with the prefix. It
// leaves out folders without the permission to read, except for the root. With Root "/" it
// lists the folders of other applications too.
type walk struct {
	s      *zkSession
	prefix string

	// names are those found so far, in no order.
	names []string

	// below are the folders of the next level. A folder is in it at most once, because a path has one
	// folder above it.
	below []string
}

// run returns, sorted, the names of the queues with an entry. It reads level by level, at most atOnce
// folders in a round trip, each behind a Sync: a tool that shows locks wants no old answer.
func (w *walk) run(ctx context.Context) ([]string, error) {
	for w.below = []string{w.s.b.lay.root}; len(w.below) > 0; {
		level := w.below
		w.below = nil
		for chunk := range slices.Chunk(level, atOnce) {
			var b batch
			for _, folder := range chunk {
				b.add(conn.Children(rooted(folder)), func(a conn.Answer) error { return w.take(folder, a) })
			}
			if err := b.run(ctx, w.s, true); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(w.names)
	return w.names, nil
}

// take adds a folder's name if it is a queue with an entry, and the folders below it that can lead to a
// name with the prefix: those whose own name begins with it, and those that it begins with.
//
// An entry has no folder below it, and side folders have no name that users can give: see layout.name.
func (w *walk) take(folder string, a conn.Answer) error {
	if a.Err != nil && !isMissing(a.Err) && (folder == w.s.b.lay.root || !errors.Is(a.Err, zk.ErrNoAuth)) {
		return translate(a.Err, "READ", folder)
	}
	name, ok := w.s.b.lay.name(folder)
	if ok && strings.HasPrefix(name, w.prefix) && len(parseNames(a.Children)) > 0 {
		w.names = append(w.names, name)
	}
	for _, child := range a.Children {
		path := folder + "/" + child
		name, ok := w.s.b.lay.name(path)
		_, entry := parseName(child)
		if ok && !entry && path != "/zookeeper" && (strings.HasPrefix(name, w.prefix) || strings.HasPrefix(w.prefix, name+"/")) {
			w.below = append(w.below, path)
		}
	}
	return nil
}

// rooted returns the path of a folder, which is "/" for the root of the tree.
func rooted(folder string) string {
	if folder == "" {
		return "/"
	}
	return folder
}

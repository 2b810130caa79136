package membackend

import (
	"context"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session"
)

// Open opens a session with a new client of its own. A nil o means the
// defaults of [session.Options].
func (st *Store) Open(ctx context.Context, o *session.Options) (*session.Session, error) {
	return st.NewClient().Open(ctx, o)
}

// Open opens a session through this client. Several may be open at once; they
// share its network. A nil o means the defaults of [session.Options].
func (c *Client) Open(ctx context.Context, o *session.Options) (*session.Session, error) {
	return session.Engine(door.Key{}).Open(ctx, c.Backend(), o)
}

// Engine returns the inner side of this package, for the tests of this module. Users
// cannot call it.
func Engine(door.Key) memory.Door[Store] {
	return memory.Door[Store]{
		NewWith:      newWith,
		NewScheduled: newScheduled,
		Entries:      (*Store).entries,
		Records:      (*Store).records,
		PutForeign:   (*Store).putForeign,
		Overwrite:    (*Store).overwrite,
	}
}

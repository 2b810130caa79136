package load

import (
	"context"

	"github.com/fairlock/fairlock/session"
)

// Store is a service of one server, in a process of its own.
type Store interface {
	Name() string // "etcd" or "zookeeper"

	// Open opens a Session on a connection of its own, as another process would.
	Open(ctx context.Context, opts session.Options) (*session.Session, error)

	// Server takes stock at the server.
	Server(ctx context.Context) (Server, error)

	// Line is how many entries a line has.
	Line(ctx context.Context, name string) (int, error)

	// Tidy does what an operator has set up to be done now and then, so that the
	// server does not keep what once was: on etcd a compaction.
	Tidy(ctx context.Context) error

	Close() error
}

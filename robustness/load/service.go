package load

import (
	"context"

	"github.com/fairlock/fairlock/session"
)

// Service is a service of one server, in a process of its own.
type Service interface {
	Name() string // "etcd" or "zookeeper"

	// Open opens a Session on a connection of its own, as another process would.
	Open(ctx context.Context, opts session.Options) (*session.Session, error)

	// Server returns the figures of the server.
	Server(ctx context.Context) (Server, error)

	// Entries returns the number of entries in a queue.
	Entries(ctx context.Context, name string) (int, error)

	// Tidy does what operators schedule, so that the server does not keep old data: on
	// etcd a compaction.
	Tidy(ctx context.Context) error

	Close() error
}

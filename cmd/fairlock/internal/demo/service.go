package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/worker"
	"github.com/fairlock/fairlock/internal/door"
)

// service is what a demonstration runs on. All else is the same on every one.
type service struct {
	name  string // for --on
	terms check.Terms
	open  func(ctx context.Context, lock string) (store, error)
}

// services are all there are, the default first.
func services() []service {
	return []service{
		{worker.Etcd, check.Terms{Service: "etcd", Key: "key", Lease: "lease"}, openEtcd},
		{worker.ZooKeeper, check.Terms{Service: "ZooKeeper", Key: "node", Lease: "session"}, openZooKeeper},
	}
}

// Services are the names that Options.On takes, the default first.
func Services() []string {
	var names []string
	for _, s := range services() {
		names = append(names, s.name)
	}
	return names
}

// serviceOf returns the service of a name.
func serviceOf(name string) (service, error) {
	for _, s := range services() {
		if s.name == name {
			return s, nil
		}
	}
	return service{}, fmt.Errorf("no service is called %q: there is %s", name, strings.Join(Services(), ", "))
}

// store is a service of the demonstration's own, seen without the library under
// demonstration, which is not asked about itself. It forgets all when it is
// closed.
type store interface {
	// server is the address for workers.
	server() string

	// follow tells of everything that happens in the line. It returns when
	// nothing can be missed any more; run tells until ctx ends.
	follow(ctx context.Context, l listener) (run func(), err error)

	// first asks for the lowest token in the line, 0 if nobody stands there.
	// It sees all that was acknowledged to anybody before.
	first(ctx context.Context) (int64, error)

	// mark creates the end mark in the store and deletes it, when nobody uses the
	// store any more. Events come in order: a listener that was called with the
	// mark has been called with everything before it.
	mark(ctx context.Context) error

	// left returns all keys in the store and counts its leases, whosever they are.
	// It is called after listener.marked.
	left(ctx context.Context) (keys []string, leases int, err error)

	close() error
}

// place is what the store tells of an entry.
type place struct {
	token int64 // its create revision, or its czxid
	meta  door.Meta
}

// listener is told what happens in the line, in the order of the store.
type listener interface {
	put(place)             // an entry was made
	gone(token, rev int64) // one was deleted, at this revision, or by this zxid
	marked()               // the end mark was made; see store
	fail(error)            // something may have been missed
}

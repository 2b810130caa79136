package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/worker"
	"github.com/fairlock/fairlock/internal/owner"
)

// serviceKind is a kind of service for a demonstration. Nothing else differs between kinds.
type serviceKind struct {
	name  string // the value of --on
	terms check.Terms
	open  func(ctx context.Context, lock string) (service, error)
}

// serviceKinds returns all kinds, the default first.
func serviceKinds() []serviceKind {
	return []serviceKind{
		{worker.Etcd, check.Terms{Service: "etcd", Key: "key", Lease: "lease"}, openEtcd},
		{worker.ZooKeeper, check.Terms{Service: "ZooKeeper", Key: "node", Lease: "session"}, openZooKeeper},
		{worker.Postgres, check.Terms{Service: "PostgreSQL", Key: "row", Lease: "session"}, openPostgres},
		{worker.Redis, check.Terms{Service: "Redis", Key: "key", Lease: "session"}, openRedis},
	}
}

// Services returns the values of Options.On, the default first.
func Services() []string {
	var names []string
	for _, s := range serviceKinds() {
		names = append(names, s.name)
	}
	return names
}

// kindOf returns the kind with a name.
func kindOf(name string) (serviceKind, error) {
	for _, s := range serviceKinds() {
		if s.name == name {
			return s, nil
		}
	}
	return serviceKind{}, fmt.Errorf("no service is called %q: there is %s", name, strings.Join(Services(), ", "))
}

// service is a service that the demonstration has started. It is read without Fairlock,
// which is under test here. All its data is deleted when it is closed.
type service interface {
	// address returns the address for workers.
	address() string

	// follow prepares to report everything that happens in the queue. After it has
	// returned, no event can be missed. The function run reports the events until ctx ends.
	follow(ctx context.Context, l listener) (run func(), err error)

	// first returns the lowest token in the queue, 0 if the queue is empty. The read is
	// linearizable: it sees all writes that were acknowledged to any client before.
	first(ctx context.Context) (int64, error)

	// markEnd creates the end mark and deletes it, after all workers have left. Events
	// come in order: when endMarked of a listener is called, the listener has been called
	// with every event before.
	markEnd(ctx context.Context) error

	// leftovers returns all keys of the service and the number of its leases, of all
	// clients. It is called after listener.endMarked.
	leftovers(ctx context.Context) (keys []string, leases int, err error)

	close() error
}

// entry is what the service reports of an entry.
type entry struct {
	token int64 // the create revision, the czxid, or the place
	meta  owner.Meta
}

// listener is called with the events of the queue, in the order of the service.
type listener interface {
	created(entry)            // an entry was created
	deleted(token, rev int64) // an entry was deleted, at this revision, zxid or place in the log
	endMarked()               // the end mark was created; see service
	fail(error)               // an event may have been missed
}

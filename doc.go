// Package fairlock is the manual of Fairlock: fair, fenced locks on a service
// that many processes share. It holds no code. The locks are in the packages
// below recipes; they work over a session.Session, which a backend opens:
// etcdbackend on an etcd cluster, membackend in memory for tests.
//
// Every lock is a line in which each request has one place, and requests are
// granted in the order in which the service received them. A hold carries a
// context that ends before anybody else can hold, and a fencing token that
// rises with every grant.
//
// No lock service can protect a resource by itself: a process that is stopped
// cannot notice that time has passed. The resource is safe when it refuses
// every token lower than the highest it has seen, reads included.
package fairlock

// Package membackend keeps lines in memory: for examples, for the unit tests of
// programs that use locks, and for the tests of this library.
//
//	s, err := membackend.New().Open(ctx, nil) // a *session.Session
//
// A [Store] stands for the service. Several clients may be opened on one Store,
// each through a network of its own ([Store.NewClient]), and both can be made
// to fail on demand: the service by [Store.Expire], [Store.Delete],
// [Store.PutForeign] and [Store.Overwrite]; a client's network by
// [Client.Cut], [Client.Stall] and [Client.Delay]; a single request by
// [Client.Inject], with a fault that [fault.Kind] names. [Client.OnSend] calls back
// at every request, so that a fault can hit one exact call.
//
// # What it is like
//
// It is made to be no kinder than a real service where kindness would hide a
// bug in its caller. The keys of entries are used again as soon as they are
// free. An entry that was gone before a watch on it was armed is not told (the
// watch is armed, and a look shows it), unless [driver.WatchRequest.Since]
// asked for it. A session that ended at the service is told at its next
// renewal, not at once. A join whose answer is lost tells of one entry ahead at
// most.
//
// [NewWith] makes it another kind of service: one that tells who held, one whose
// events have no numbers, one whose joins tell who is nearest, one that gives a
// shared entry another key, one that tells every end ahead. With Ends it is like
// etcd in these matters, with all the others like ZooKeeper. Limits and ledgers
// stay for as long as the Store.
//
// It is kinder in this: reads are never stale, and a healthy network has no
// delay.
//
// # Time
//
// All time is package time's, so in a bubble of testing/synctest it is
// virtual, provided that New is called inside the bubble. No goroutine waits on
// a mutex for longer than a few map operations, so time can always advance.
// There is one goroutine per session, which ends with Close or Abandon.
package membackend

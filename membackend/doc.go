// Package membackend keeps queues in memory: for examples, for the unit tests of
// programs that use locks, and for the tests of this library.
//
//	s, err := membackend.New().Open(ctx, nil) // a *session.Session
//
// A Store stands for the service. Several clients may be opened on one Store, each with
// a network of its own (Store.NewClient). Both can be made to fail on demand: the
// service by Store.Expire, Store.Delete, Store.PutForeign and Store.Overwrite; the
// network of a client by Client.Cut, Client.Stall and Client.Delay; a single request by
// Client.Inject, with a fault that fault.Kind names. Client.OnSend calls a function
// before every request, so that a fault can hit one exact call.
//
// # How it differs from a real service
//
// The Store is no kinder than a real service where kindness would hide a bug in its
// caller. The keys of entries are used again as soon as they are free. A watch on an
// entry that was gone before it was armed reports no end (the watch is armed, and a
// read shows that the entry is gone), unless driver.WatchRequest.Since is set. The
// client of a session that ended at the service learns that at its next renewal, not at
// once. The answer to a Join contains at most one entry ahead.
//
// NewWith makes another kind of service, see Options. With Ends it is like etcd in
// these matters, and with all other options like ZooKeeper. Limits and ledgers stay for
// as long as the Store.
//
// It is kinder in two ways: reads are never stale unless Options.Stale is set, and a
// healthy network has no delay.
//
// # Time
//
// All time is package time's, so in a bubble of testing/synctest it is virtual,
// provided that New is called inside the bubble. No goroutine waits on a mutex for
// longer than a few map operations, so time can always advance. There is one goroutine
// per session, which ends with Close or Abandon.
package membackend

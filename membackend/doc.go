// Package membackend keeps queues in memory: for examples, for the unit tests of
// programs that use locks, and for the tests of this library.
//
//	s, err := membackend.New().Open(ctx, nil) // a *session.Session
//
// A Store stands for the service. Several clients may be opened on one Store, each with
// a network of its own (Store.NewClient). Both can be made to fail on demand: the
// service by Store.Expire and Store.Delete; the network of a client by Client.Cut,
// Client.Stall and Client.Delay; a single request by Client.Inject, with a fault that
// fault.Kind names. Client.OnSend calls a function before every request, so that a fault
// can hit one exact call.
//
// # How it differs from a real service
//
// The Store is no kinder than a real service where kindness would hide a bug in its
// caller. The keys of entries are used again as soon as they are free. The answer to a
// request that was sent twice does not show whether the first copy of it did the work.
// The client of a session that ended at the service learns that at its next renewal, not
// at once. An Update that the contract rules out is refused.
//
// It is kinder in three ways: reads are never stale, events come in the order in which
// things happened, and a healthy network has no delay.
//
// # Time
//
// All time is package time's, so in a bubble of testing/synctest it is virtual,
// provided that New is called inside the bubble. No goroutine waits on a mutex for
// longer than a few map operations, so time can always advance. A session has goroutines
// only while a callback runs or a watch waits to be armed; Close and Abandon end them.
package membackend

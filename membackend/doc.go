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
// # The path of a request
//
//	memSession.Join   checks what the contract rules out
//	  do              one request, of which several copies may be sent
//	    roundTrip     sends a copy, and another one after each timeout
//	      Wire.Send
//	        Launch    the copy leaves the process, unless it was withdrawn
//	        Arrive    the service acts: service.join, on the state
//	      the answer, unless the network loses it
//	    learned       from now on the session reads nothing older
//
// A fault takes one of these steps away, so the outcome is one of three: done, not done, or
// unknown (see roundTrip). The service carries out the first copy that arrives, and repeats its
// answer to the others.
//
// # Mutexes
//
// Three matter, and they are taken in this order only:
//
//	Store   guards the service, and what sessions and watches know
//	Client  guards its network: faults, and what is under way or held back
//	inbox   guards the calls of callbacks that are due
//
// The code of a caller (a callback, a hook of OnSend) runs under none of them.
//
// # Time
//
// All time is package time's, so in a bubble of testing/synctest it is virtual,
// provided that New is called inside the bubble. No goroutine waits on a mutex for
// longer than a few map operations, so time can always advance. A session has goroutines
// only while a callback runs or a watch waits to be armed; Close and Abandon end them.
package membackend

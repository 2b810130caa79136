// Package fence checks fencing tokens at the resource, which is the half of a lock that
// no lock service can do.
//
// A holder that was stopped cannot notice that time has passed. When it resumes, it
// continues its work, although another client may hold the lock by then. Only the
// resource can refuse that work: it stores the highest tokens that it has seen.
//
//	var gate fence.Gate // next to the data, in the process that owns the data
//
//	err := gate.Do(token, session.Exclusive, func(m fence.Marks) error {
//		return store.put(key, value, m) // store the marks with the data
//	})
//
// # The rules
//
// The resource accepts an access of an exclusive hold (of a mutex, a writer, a leader,
// or a semaphore's slot) if its token is not lower than any token seen. It accepts an
// access of a shared hold (a reader) if its token is not lower than any exclusive token
// seen: readers may come in any order among themselves. It stores the token of each
// accepted access.
//
// # First access, reads included
//
// A hold must show its token at its first access to the resource, even if it only
// reads, and at every access after that. Checking the writes alone is not enough.
// Suppose that the new holder reads; the old holder resumes and writes, before any
// write with a newer token; and the new holder then writes what it computed from its
// older read. An update is lost, although no write was out of order.
//
// # One step
//
// The check of the token and the work must be one step for every other client of the
// resource. Otherwise an accepted write can happen after a newer one. Gate.Do is such a
// step within one process. For resources that several processes share, there are packages
// next to this one: sqlfence for databases, filefence for files, httpfence for requests,
// redisfence for keys of Redis, and casfence for objects of object stores.
//
// # Where to store the marks
//
// Marks belong to what the lock protects, and live as long: store them with the data,
// one pair for each lock. Never use one Gate for the tokens of different locks or of
// two stores. The holders of a semaphore have no order among each other, so fence them
// by slot (semaphore.Options.Slots): one Gate for each slot, in which every hold counts
// as exclusive. The token of a hold with a slot rises with every hold that gets the
// slot.
package fence

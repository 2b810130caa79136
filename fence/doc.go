// Package fence applies fencing tokens at the resource: the half of a lock that
// no lock service can do.
//
// A holder that was stopped does not know that time has passed. It wakes up, and
// what it was about to do it does, though somebody else holds by now. Only the
// resource can refuse that: it remembers the tokens that it has seen.
//
//	var gate fence.Gate // beside the data, in the process that owns the data
//
//	err := gate.Do(token, session.Exclusive, func(m fence.Marks) error {
//		return store.put(key, value, m) // the marks go with the data
//	})
//
// # The rules
//
// What an exclusive hold does (of a mutex, a writer, a leader, a semaphore's
// slot) is accepted if its token is not lower than any that was seen. What a
// shared hold does (a reader) is accepted if its token is not lower than any
// exclusive one that was seen: readers may come in any order among themselves.
// Both are remembered.
//
// # First touch, reads included
//
// A hold has to show its token the first time that it touches the resource, also
// if it only reads, and every time after that. To fence the writes alone is not
// enough: the new holder reads, the old one wakes up and writes, with a token
// that nobody has outbid so far, and the new one writes over that what it has
// made of its older reading. An update is lost, and no write was out of order.
//
// # One step
//
// To check the token and to do the work must be one step for everybody else who
// comes to the resource, or a write that was admitted can be done after a newer
// one. Gate.Do is such a step in one process. Where the resource is a database,
// take Marks.Touch in its transaction, or say the same in its language, as
// examples/fencing does in SQL.
//
// # What to keep where
//
// Marks belong to what the lock protects, and live as long: stored beside the
// data, one pair for each lock. Tokens of different locks must not meet in one
// Gate, nor those of two stores. The holders of a semaphore have no order among
// each other; they are fenced by slot (semaphore.Options.Slots), with a Gate for
// each and every hold exclusive in its own. The token of a hold with a slot is one
// of the slot, and rises with every hold that gets it.
package fence

// Package designs tries the locks that programs build by hand on a store that they have already, and the locks
// of libraries, under the same faults. docs/designs.md shows what it has found.
//
// A design is a lock.Locker in the folder of its store, as short as the articles that show it. Locks of
// libraries are those that the trials of robustness have already: the peers of onredis, onpg, onzk and onetcd,
// and Fairlock. All are tried as a trial.Client.
//
// A trial has three programs, each with a client and a network of its own. One holds, and two wait. One fault
// happens, and the trial looks for what may go wrong with a lock:
//
//   - two hold at once: a program was granted the lock while another one still believed that it holds,
//   - an update is lost: both changed the same number, and one change is gone; where the lock has a token, the
//     number refuses tokens that are older than the newest one it has seen,
//   - a waiter is never granted, although the servers are well and the holder has released or is dead,
//   - an orphan: all three programs have ended, and the lock is still taken.
//
// Measure counts in what order a design grants, and how many requests that takes. Optimistic is about the one
// design that is no lock: a version column.
package designs

// Package pgbackend keeps locks in PostgreSQL 13 or newer, directly or behind a pooler.
//
//	s, err := pgbackend.Dial(ctx, "postgres://localhost/app", nil)
//
// The tables are made once, by "fairlock schema postgres --apply URL" or Apply. "fairlock doctor",
// or Examine, shows what is wrong with a server, and what it keeps of the promises of a lock.
//
// # How it works
//
// Each request of a lock is an entry in a queue; its place in the queue is a number of one sequence
// and the fencing token. A waiter is notified of the end of what is ahead of it. PostgreSQL ends
// nothing by itself, so each process renews its session a few times in each TTL, and the others
// observe that: one that was not renewed for a TTL, on the clock of the one that observes, is ended
// with its entries. No clock of a server takes part.
//
// # Connections
//
// A Session has three, whatever the number of locks and waiters: one for calls, or your pool with
// Open; one for renewals, which wait for nothing else; and one for notifications. A connection that
// breaks is made again, on the server that takes writes then. The Session survives that, if it takes
// less than the trust window. Passwords that change are for Options.BeforeConnect.
//
// # Poolers
//
// A pooler that lends a connection for a session changes nothing. Through one that lends it for a
// transaction, as PgBouncer with pool_mode = transaction, no notifications arrive. Give the address
// of the server itself as Options.Listen. Without it the Session finds that out, logs it once, and
// the first waiters of each queue read their state every 50 ms. A pool of your own needs
// default_query_exec_mode=exec then, unless the pooler keeps prepared statements.
//
// # Failover
//
// The server that becomes the primary may lack what the old one has answered. So every session of
// before is over, and nothing is granted for the greatest TTL that the tables admit. The programs
// count that while they open a session, together: what one has counted is kept for the next. A
// restart of the same server changes nothing. The old primary must not go on:
// see docs/guarantees.md, "What each store keeps".
//
// # Privileges and vacuum
//
// The role of a program needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its tables,
// and SELECT and UPDATE on its sequence; docs/operations.md has the exact list. It makes nothing. The
// tables have a row for each entry and session that exists now, so they are small, and autovacuum
// with its defaults keeps them so. A transaction that is open for long keeps dead rows, which
// requests pass by, and delays what it has locked.
//
// # The strongest guard
//
// Guard checks a hold in your own transaction: the lock is checked and the data is written in one
// commit. No token can do more, and none is needed then.
package pgbackend

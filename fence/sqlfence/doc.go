// Package sqlfence checks fencing tokens in a transaction of the caller's database: PostgreSQL,
// MariaDB, MySQL or SQLite. It imports no driver; it takes transactions of database/sql and of pgx.
//
//	tx, err := db.BeginTx(ctx, nil) // ctx is that of the hold: it rolls back when the lock is lost
//	…
//	err = sqlfence.In(tx, sqlfence.PostgreSQL).Touch(ctx) // the first statement
//	…                                                      // reads and writes
//	err = tx.Commit()
//
// Touch takes the token and the name of the lock from the context, see session.HoldFrom. It refuses
// a token that is outbid, by the rules of package fence, with a *StaleError that has the resource and
// both tokens, and records a token that it accepts. With pgx it is sqlfence.InPgx(tx).Touch(ctx).
//
// # Three forms
//
// The table of the marks, which Schema prints, has a row for each lock. Touch is one statement, on
// MySQL two. It takes shared holds, several locks and slots of a semaphore.
//
// A row of yours can have a column for the token. TouchRow is one statement, and CheckRow none: it
// judges a statement of yours that has the token in its condition.
//
// Data in the same PostgreSQL as the locks needs neither: see pgbackend.Guard.
//
// # First
//
// Touch is the first statement of every transaction of a hold, also of one that only reads. It
// waits for the transactions that have touched the same marks, and what is read after it is what
// they have committed:
//
//   - at READ COMMITTED, the default of PostgreSQL, each statement reads what is committed at its
//     begin. So a read must not be in one statement with Touch, as a CTE: it would be of before.
//   - at REPEATABLE READ and SERIALIZABLE, PostgreSQL reports a serialization error (40001) if
//     another transaction has touched the marks since the first statement of this one. Repeat the
//     transaction.
//   - at REPEATABLE READ, the default of MariaDB and MySQL, a transaction reads the snapshot of its
//     first read to its end. After a read before Touch it goes on with old data, without an error.
//     START TRANSACTION WITH CONSISTENT SNAPSHOT is such a read.
//   - SQLite has one writer. A transaction whose first statement is Touch waits for the others for as
//     long as the pragma busy_timeout allows; one that has read before cannot become a writer if there
//     was another. BEGIN IMMEDIATE is not needed, and does no harm.
//
// A SELECT … FOR UPDATE of your own and a comparison in Go come to the same. Without FOR UPDATE they
// are a race.
//
// # Deadlocks
//
// One call of Touch locks its marks in one order. Two calls in one transaction, or several TouchRow,
// are in the order of the caller; the database ends a deadlock with an error (40P01, 1213). While
// all is well there is none to wait for: the holders have excluded each other before.
//
// # Columns
//
// Tokens have 64 bits: a column of your own is BIGINT NOT NULL DEFAULT 0. INT has 32 bits, except in
// SQLite. A token that is too large for it is an error; but MySQL outside of its strict mode cuts it
// silently, and then nothing is fenced. In a text column '10' is lower than '9'.
//
// # What is not known
//
// If Commit fails, the transaction may be committed all the same. The same hold may repeat it: its
// token is accepted again.
//
// The marks belong to one store of locks. When the locks move to another etcd, or to another kind
// of store, the tokens start elsewhere: delete the marks while no hold of before can write.
package sqlfence

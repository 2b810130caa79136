// Package pgtest starts real PostgreSQL servers for a test, and breaks them in the ways
// that machines and operators do.
//
//	server := pgtest.New(t, nil)
//	conn := server.Conn(t)       // both are closed when the test ends
//
// A server's processes can be killed, stopped and restarted, all of them or one backend.
// Server.Standby adds a standby, which can be synchronous, lag, and be promoted while the
// primary lives or not. Server.Bouncer puts PgBouncer before the server. Server.SetClock
// sets the server's clock. Options has TLS, rules of access and settings; roles with fewer
// rights are made with Server.Exec, and connect with Server.URLAs. A testnet.Proxy before
// Server.Addr breaks the network. Start does the same as New without a test, for benchmarks
// and demonstrations.
//
// PostgreSQL 15 or later must be on the machine, for example from Debian's package postgresql:
// see Find. All servers listen on 127.0.0.1 and on a socket in their own directory only. They
// do not run as root: a test that is root runs them as the user "postgres", or as the system's
// user without rights.
//
// # What is left behind
//
// Nothing is left after Close, which New calls at the end of the test. When the test
// process dies before that, the servers die with it: on Linux the kernel kills them, and
// on other Unix systems a shell for each server watches a pipe to the test process.
// Processes that Server.Pause has stopped end too. On Linux, a Start on the same machine
// removes the temporary data of a test that died, at least a minute after that test began;
// elsewhere the data stays in the directory for temporary files.
//
// # Speed
//
// The first start in a process makes a database cluster with initdb, and later starts copy
// it. On two cores the first start takes 0.7 s and each later one 0.1 s, on the disk 0.6 s.
// A standby takes 0.2 s, PgBouncer 10 ms, a restart after Kill 0.1 s, a promotion 30 ms. A
// server takes 40 MB of data and 25 MB of memory. These figures are from PostgreSQL 15.20.
//
// A server is as durable as its settings say (fsync is on), but its data is in memory where
// the system has a directory for that, with enough room: see Options.Disk. Buffers and the
// write-ahead log are small. Everything else is as PostgreSQL comes.
package pgtest

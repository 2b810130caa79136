// Package mysqltest starts real MariaDB servers for a test, and breaks them in the ways that
// machines and operators do.
//
//	server := mysqltest.New(t, nil) // it is closed when the test ends
//	db, err := sql.Open("mysql", server.DSN())
//
// A server's process can be killed, stopped and restarted. Options has settings. The package
// brings no client: a test uses the one that its program uses. A testnet.Proxy before
// Server.Addr breaks the network. Start does the same as New without a test, for benchmarks
// and demonstrations.
//
// MariaDB 10.6 or later must be on the machine, for example from Debian's packages
// mariadb-server-core and mariadb-client-core: see Find. All servers listen on 127.0.0.1 and
// on a socket in their own directory only. They run as the user of the test.
//
// # What is left behind
//
// Nothing is left after Close, which New calls at the end of the test. When the test
// process dies before that, the servers die with it, also those that are stopped: on Linux the
// kernel kills them, and on other Unix systems a shell for each server watches a pipe to the
// test process. On Linux, a Start on the same machine removes the temporary data of a test
// that died, at least a minute after that test began; elsewhere the data stays in the
// directory for temporary files.
//
// # Speed
//
// The first start in a process makes the system tables with mariadb-install-db, and later
// starts copy them. On two cores the first start takes 1.4 s and each later one 0.1 s to 0.4 s, on
// the disk 0.7 s; a restart after Kill takes 0.1 s. A server takes 20 MB of data and 80 MB of
// memory. These figures are from MariaDB 10.11.19.
//
// A server is as durable as its settings say (innodb_flush_log_at_trx_commit is 1), but its
// data is in memory where the system has a directory for that, with enough room: see
// Options.Disk. Buffers and files are small, there is no binary log, and the tables of time
// zones are empty. Everything else is as MariaDB comes.
package mysqltest

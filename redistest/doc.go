// Package redistest starts real Redis or Valkey servers for a test, and breaks them in the ways
// that machines, networks and operators do.
//
//	server := redistest.New(t, nil)
//	client := server.Client(t)   // both are closed when the test ends
//
// A server's process can be killed, stopped, restarted with its data or without, and its clock
// can be set. Server.Replica adds a replica behind a proxy, so that it can lag, be cut off, and be
// promoted while the master lives or not. StartSentinels starts a master with replicas that
// Sentinels watch, StartCluster a cluster of several shards. Options has persistence, TLS,
// and further lines of the configuration, such as users and a limit of memory. A testnet.Proxy
// before Server.Addr breaks the network. Start does the same as New without a test, for
// benchmarks and demonstrations.
//
// Redis 7.0 or later, or Valkey, must be on the machine, for example from Debian's package
// redis-server: see Find. All servers listen on 127.0.0.1 and on a socket in their own directory
// only. The connections of this package go through that socket, as a user "redistest" of its
// own, so that neither TLS nor a password nor a proxy is in their way.
//
// # What is left behind
//
// Nothing is left after Close, which New calls at the end of the test. When the test process
// dies before that, the servers die with it, also those that are stopped: on Linux the kernel
// kills them, and on other Unix systems a shell for each server watches a pipe to the test
// process. A child that writes a snapshot at that moment ends by itself. On Linux, a Start on the
// same machine removes the temporary data of a test that died, at least a minute after that
// test began; elsewhere the data stays in the directory for temporary files.
//
// # Speed
//
// On two cores a start takes 25 ms, a restart 70 ms, a replica 0.2 s, a promotion 20 ms. A master
// with two replicas and three Sentinels takes 1.5 s, and a failover after Kill 2.3 s, of which the
// Sentinels wait 1 s. A cluster takes 2.2 s, because its masters wait 2 s, and 2.8 s with
// replicas. A clock takes 0.2 s to compile. A server takes 12 MB of memory. These figures are from
// Redis 7.0.15.
package redistest

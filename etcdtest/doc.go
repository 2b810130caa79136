// Package etcdtest starts a real etcd for a test, with one member or several, and
// breaks it in the ways that networks and machines break.
//
//	cluster := etcdtest.New(t, nil)   // one member, inside this process
//	client := cluster.Client(t)       // both are closed when the test ends
//
// Options.Members makes it a cluster. Options.Processes runs every member in a process
// of its own that can be killed, stopped and restarted. Options.Proxied puts proxies
// before all addresses, which hold, drop, delay and reset the traffic of clients and
// members. Start does the same without a test, for benchmarks and demonstrations.
//
// # What is left behind
//
// Nothing is left after Close, which New calls at the end of the test. When the test
// process dies before that, embedded members die with it, and so do member processes:
// each watches a pipe to the test process, and on Linux the kernel kills it as well.
// (On other systems a process that is stopped by Member.Pause at that moment stays
// stopped.) On Linux, a Start on the same machine removes the temporary data of a test
// that died, at least a minute after that test began; elsewhere the data stays in the
// directory for temporary files.
//
// A test that looks for leaked goroutines with several embedded members should set
// Options.Proxied: the proxies end the connections between members, on which etcd's
// goroutines otherwise wait for up to 5 s after Close.
//
// # Speed
//
// Members do not wait for the disk and elect a leader within a second of losing one;
// the shortest lease is 1 s. Data is kept in memory where the system has a directory
// for that, with enough room. Everything else is etcd's own code and protocol.
package etcdtest

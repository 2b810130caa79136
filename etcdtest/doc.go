// Package etcdtest starts an etcd server or a cluster for a test, and breaks it
// in the ways that networks and machines break.
//
//	cluster := etcdtest.New(t, nil)   // one member, inside this process
//	client := cluster.Client(t)       // both are closed when the test ends
//
// Options.Members makes it a cluster, Options.Processes gives every member a
// process of its own that can be killed, stopped and restarted, Options.Proxied
// puts proxies before all addresses, which hold, lose, delay and reset what
// clients and members say to each other. Start does the same without a test, for
// benchmarks and demonstrations.
//
// # What is left behind
//
// Nothing after Close, which New arranges. When the test dies without it, killed
// or by a panic, embedded members die with it and so do the processes: each
// watches a pipe to us, and on Linux the kernel is told as well. (Elsewhere a
// process that is stopped by Member.Pause at that moment stays stopped.) The
// temporary data of a dead test is removed by the next Start on the same machine,
// on Linux; elsewhere it stays in the directory for temporary files.
//
// A test that looks for leaked goroutines with several embedded members should
// set Options.Proxied: the proxies end the connections between members, on which
// etcd's goroutines otherwise wait for up to 5 s after Close.
//
// # Speed
//
// Members do not wait for the disk and elect a leader within a second of losing
// one; the shortest lease is 1 s. Data is kept in memory where the system has a
// directory for that. This is etcd's own code and protocol in everything else.
package etcdtest

// Package zktest starts a real ZooKeeper for a test, with one server or an ensemble,
// and breaks it in the ways that networks and machines break.
//
//	ensemble := zktest.New(t, nil)   // one server
//	conn := ensemble.Client(t)         // both are closed when the test ends
//
// Options.Members makes it an ensemble. Options.Proxied puts proxies before all
// addresses, which hold, drop, delay and reset the traffic of clients and members. The
// members' processes can be killed, stopped and restarted. Ensemble.SetSequence brings
// the sequence numbers of a node near their end. Start does the same as New without a
// test, for benchmarks and demonstrations.
//
// Java and ZooKeeper must be on the machine, from Debian's packages or as an unpacked
// Apache release: see Find. All servers listen on the loopback interface only.
//
// # What is left behind
//
// Nothing is left after Close, which New calls at the end of the test. When the test
// process dies before that, the servers die with it: on Linux the kernel kills them,
// and on other Unix systems a shell for each server watches a pipe to the test process.
// (On other systems they stay.) On Linux, a Start on the same machine removes the
// temporary data of a test that died, at least a minute after that test began; elsewhere
// the data stays in the directory for temporary files.
//
// # Speed
//
// On two idle cores one server starts in 0.2 s, with Options.TLS in 0.5 s, three start
// in 0.8 s and five in 1.3 s. While other programs wanted ten cores more, the same took
// 1 s, 1.5 s, 3 s and 3 s to 6 s. A server takes 60 MB of memory, with Options.TLS 115
// MB. When the leader is killed, another leads after 0.4 s. When it is cut off or
// paused, the others notice after 20 ticks, and another leads after 2.3 s to 2.8 s.
// SetSequence takes 0.5 s with one member and 1.4 s with three. These figures are from
// ZooKeeper 3.8.0 on Java 17.
//
// Servers do not wait for the disk, and data is kept in memory where the system has a
// directory for that, with enough room. Everything else is ZooKeeper's own code and protocol.
package zktest

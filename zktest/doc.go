// Package zktest starts a ZooKeeper server or an ensemble for a test, and breaks
// it in the ways that networks and machines break.
//
//	ensemble := zktest.New(t, nil)   // one server
//	conn := ensemble.Client(t)         // both are closed when the test ends
//
// Options.Members makes it an ensemble, Options.Proxied puts proxies before all
// addresses, which hold, lose, delay and reset what clients and members say to
// each other, and the members' processes can be killed, stopped and restarted.
// Ensemble.SetSequence brings a line of sequential nodes near its end. Start does
// the same as New without a test, for benchmarks and demonstrations.
//
// Java and ZooKeeper must be on the machine, from Debian's packages or as an
// unpacked Apache release: see Find. Everything listens on the loopback interface
// only.
//
// # What is left behind
//
// Nothing after Close, which New arranges. When the test dies without it, killed
// or by a panic, the servers die with it: on Linux the kernel sees to it, on other
// Unix systems a shell beside each server watches a pipe to us. (Elsewhere they
// are left.) The temporary data of a dead test is removed by the next Start on the
// same machine, on Linux; elsewhere it stays in the directory for temporary files.
//
// # Speed
//
// On two idle cores one server starts in 0.2 s, with Options.TLS in 0.5 s, three
// start in 0.8 s and five in 1.3 s; while other programs wanted ten cores more, the
// same took 1 s, 1.5 s, 3 s and 3 s to 6 s. A server is 60 MB of memory, with Options.TLS
// 115 MB. When the leader is killed, another leads after 0.4 s; when it is cut off
// or paused, the others notice after 20 ticks, and another leads after 2.3 s to
// 2.8 s. SetSequence takes 0.5 s with one member and 1.4 s with three. Measured
// with ZooKeeper 3.8.0 on Java 17.
//
// Servers do not wait for the disk, and data is kept in memory where the system
// has a directory for that. This is ZooKeeper's own code and protocol in
// everything else.
package zktest

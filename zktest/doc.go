// Package zktest starts a ZooKeeper server or an ensemble for a test, and breaks
// it in the ways that networks and machines break.
//
//	ensemble := zktest.New(t, nil)   // one server
//	conn := ensemble.Conn(t)         // both are closed when the test ends
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
// Servers do not wait for the disk, and data is kept in memory where the system
// has a directory for that. This is ZooKeeper's own code and protocol in
// everything else.
package zktest

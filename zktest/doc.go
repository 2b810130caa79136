// Package zktest starts a ZooKeeper server or an ensemble for a test, and breaks
// it in the ways that networks and machines break.
//
//	ensemble := zktest.New(t, nil)   // one server
//	conn := ensemble.Conn(t)         // both are closed when the test ends
//
// It needs Java and ZooKeeper on the machine: see Find.
package zktest

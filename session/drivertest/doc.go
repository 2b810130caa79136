// Package drivertest is the suite that every backend passes. A backend's own
// test is a [Harness] and one call:
//
//	func TestDriver(t *testing.T) { drivertest.Run(t, harness()) }
//
// Each case is a case whose name is a claim of the contract in session/driver.
// The cases speak to the backend through driver.Backend and driver.Session
// only; what happens to it comes through the harness: faults of one client's
// network, and acts of others at the service.
//
// The suite is itself tested: its own tests plant defects into a backend, one
// at a time, and require that the case meant for each turns red.
//
// # Time
//
// A case waits for something to happen, never for time to pass, except where
// the claim is about time. It runs on virtual time if the harness says so.
package drivertest

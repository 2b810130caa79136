// Package drivertest is the conformance suite of backends. A backend's own test is a
// Harness and one call:
//
//	func TestDriver(t *testing.T) { drivertest.Run(t, harness()) }
//
// The name of each case is a claim of the contract in package driver. The cases use the
// backend through driver.Backend and driver.Session only. The harness does the rest:
// faults of one client's network, and acts of other clients at the service.
//
// The suite is itself tested: its own tests plant faults into a backend, one at a time,
// and require that the case meant for each fails.
//
// # Time
//
// A case waits for something to happen, never for time to pass, except where the claim
// is about time. It runs in virtual time if the harness has it.
package drivertest

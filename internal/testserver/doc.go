// Package testserver is what packages that start real servers for tests have in
// common: processes that do not outlive the test, directories that later tests
// sweep up, free ports, and certificates. It knows nothing of the servers.
package testserver

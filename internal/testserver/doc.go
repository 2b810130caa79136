// Package testserver has what packages that start real servers for tests have
// in common: directories that later tests clean up, free ports, and the test
// that no server outlives its test. It knows nothing about the servers.
package testserver

// Package testserver is what packages that start real servers for tests have in
// common: directories that later tests sweep up, free ports, and the
// test that no server outlives its test. It knows nothing of the servers.
package testserver

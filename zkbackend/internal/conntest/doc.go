// Package conntest tests package conn against real ZooKeeper servers. It is apart from it
// because no shipped package imports a package that starts servers, not even in its tests.
package conntest

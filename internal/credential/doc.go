// Package credential reads certificates, keys and passwords from files: at the start, and again
// whenever a connection is made or a login is repeated. So a program that runs for months uses what
// a rotation has put in place.
//
// A file that cannot be used at the start is an error. Later it may be missing, half written, or a
// certificate whose key comes a moment after it. Then the last good content is used, and the reason
// is logged once. If the last good content has ended, the servers refuse it, the connection is tried
// again, and the next attempt reads the file again: no attempt fails that might have succeeded.
package credential

// Package address reads the URLs that name a service, for fairlock.Open and for
// the command line. It is pure but for the files that an Address names, and it
// never puts a password, nor a part of one, into an error.
package address

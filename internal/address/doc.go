// Package address parses the URLs that name a service, for stores.Open and
// for the command line. It reads nothing but the files that an Address names,
// and never puts a password, or a part of one, into an error.
package address

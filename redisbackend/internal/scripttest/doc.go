// Package scripttest has the tests of the scripts of package script on a real server, which package script
// itself does without.
package scripttest

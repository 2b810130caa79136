// Package door keeps what is for this module's own packages out of users' reach, where Go has
// no other means: only a package that can import this one can call a function that takes a [Key].
package door

// Key opens the door. Its zero value is ready to use. Code outside of this module
// cannot name the type, and the field keeps it from giving a struct{} in its place.
type Key struct{ _ sealed }

type sealed struct{}

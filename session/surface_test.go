package session_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
)

// core is package session as the packages of this module see it.
var core = session.Engine(door.Key{})

// TestHoldHasOnlyMethodsForUsers: what a recipe does to a hold, a user must not be
// able to do. A method that is added here is one that any program may call on any
// hold, at any time.
func TestHoldHasOnlyMethodsForUsers(t *testing.T) {
	forUsers := []string{
		"Context", "Kind", "Mode", "Name", "Names", "PreviousDied", "Remaining", "SessionID", "Slot",
		"Token", "Unlock",
	}
	var has []string
	for m := range reflect.TypeFor[*session.Hold]().Methods() {
		has = append(has, m.Name)
	}
	assert.Equal(t, forUsers, has)
}

package session_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session"
)

// TestHoldHasOnlyMethodsForUsers: what a recipe does to a hold, a user must not be
// able to do. A method that is added here is one that any program may call on any
// hold, at any time.
func TestHoldHasOnlyMethodsForUsers(t *testing.T) {
	forUsers := []string{
		"Asked", "Context", "Kind", "Mode", "Name", "Names", "Previous", "PreviousDied", "Refs", "Remaining", "Service", "SessionID", "Slot",
		"Token", "Unlock", "Valid",
	}
	var has []string
	for m := range reflect.TypeFor[*session.Hold]().Methods() {
		has = append(has, m.Name)
	}
	assert.Equal(t, forUsers, has)
}

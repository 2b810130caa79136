package fence_test

import (
	"fmt"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// A resource stores the marks with its data, and begins with them after a restart.
func ExampleNewGate() {
	gate := fence.NewGate(fence.Marks{Exclusive: 7})
	fmt.Println(gate.Admit(6, session.Exclusive) != nil)
	fmt.Println(gate.Admit(8, session.Exclusive), gate.Marks().Exclusive)
	// Output:
	// true
	// <nil> 8
}

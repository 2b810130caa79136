//go:build mutants

package defect

import "sync/atomic"

// planted is the defect that is planted.
var planted atomic.Uint32

// Is says whether a defect is planted.
func Is(d Defect) bool { return Defect(planted.Load()) == d }

// Plant plants a defect in the place of the one before; None takes it out.
func Plant(d Defect) { planted.Store(uint32(d)) }

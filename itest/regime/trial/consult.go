package trial

import "github.com/fairlock/fairlock/itest/regime/history"

// consult asks all oracles.
func consult(*History) []history.Violation { return nil }

// draw draws what the model refuses.
func (r *Result) draw(string) error { return nil }

package trial

import "github.com/fairlock/fairlock/itest/regime/history"

// consult asks all oracles.
func consult(*History) []history.Violation { return nil }

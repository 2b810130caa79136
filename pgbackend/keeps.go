package pgbackend

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
)

// Keeps returns what the primary of this Report keeps of the promises of a queue, set up as it is.
//
// A server alone keeps all that it has answered, if it flushes it (fsync). A standby that becomes
// the primary may not have all of it. Then the data has another life, and nothing is granted until
// all earlier holds have ended; so exclusion is kept, unless the old primary goes on and answers
// renewals. It cannot if each renewal waits for a standby that follows the new primary: where
// commits wait for all standbys, and where they wait for so many that two groups of them, each with
// its primary, have a server in common. In the second case a standby that lags can be promoted, so
// entries can be lost, and with them the order of their owners.
//
// For the second case the standbys must have the same setting. In both, a standby that can become the
// primary must stay in the setting.
func (r Report) Keeps() driver.Keeps {
	switch {
	case !r.Fsync:
		return driver.Keeps{Exclusion: driver.UntilDataLoss, Order: driver.UntilDataLoss, Tokens: driver.UntilDataLoss}
	case r.Awaited >= r.Copies:
		return driver.Keeps{Exclusion: driver.Always, Order: driver.Always, Tokens: driver.Always}
	case 2*(r.Awaited+1) > r.Copies+1:
		return driver.Keeps{Exclusion: driver.Always, Order: driver.UntilDataLoss, Tokens: driver.Always}
	}
	return driver.Keeps{Exclusion: driver.UntilSplit, Order: driver.UntilDataLoss, Tokens: driver.UntilSplit}
}

// awaits returns for how many standbys each commit waits where synchronous_standby_names has this
// value, and how many it names apart from this server's own name. "*" names any number: then named
// is the number that is waited for.
func awaits(setting, own string) (awaited, named int) {
	head, list, grouped := strings.Cut(strings.TrimSpace(setting), "(")
	if !grouped {
		head, list = "1", head
	}
	fields := strings.Fields(head)
	if len(fields) == 0 {
		return 0, 0
	}
	awaited, err := strconv.Atoi(fields[len(fields)-1]) // behind FIRST or ANY, if one of them is there
	if err != nil || strings.TrimSpace(list) == "" {
		return 0, 0
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(list), ")"), ",") {
		name = strings.TrimSpace(name)
		if name == "*" {
			return awaited, awaited
		}
		// Names are compared without regard to case, and may be quoted.
		name = strings.ToLower(strings.Trim(name, `"`))
		if !strings.EqualFold(name, own) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return awaited, len(names)
}

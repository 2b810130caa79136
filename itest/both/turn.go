package both

import (
	"slices"

	"github.com/fairlock/fairlock/internal/tier"
)

// Turn reports which cases it is the turn of a service with that many servers to run, by their names. The
// services share them unless every case is to run: above the contract of drivertest, which runs on each
// service in full, such a case takes the same path on all of them. Two of the services have suites on
// three servers that answer alike.
func Turn(service string, servers int) func(name string) bool {
	all := []string{"etcd", "zk", "postgres", "redis"}
	if servers > 1 {
		all = all[:2]
	}
	return func(name string) bool { return slices.Contains(tier.Pick(name, all...), service) }
}

// Package both holds the cases that etcd and ZooKeeper must both pass, those of them that
// PostgreSQL must pass too, and what the other cases of the services share.
package both

import (
	"testing"
	"time"

	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Service is the part of etcd or ZooKeeper that one case sees: a root on a server
// that the cases of a package share.
type Service interface {
	Processes

	// ForeignRecords returns how other clients write records of the queues of the root.
	ForeignRecords(t testing.TB) ForeignRecords

	// Logins returns a server with users and passwords.
	Logins(t testing.TB) Logins

	// Measured opens a session to be measured.
	Measured(t testing.TB) Measured

	// Layouts returns a root for each layout of entries that the service has, by name.
	Layouts(t testing.TB) map[string]Layout
}

// Processes is the part of any service that a case with client processes sees.
type Processes interface {
	// Servers and Root are what a process of the case needs.
	Servers() []string
	Root() string

	// Client opens a session on the root.
	Client(t testing.TB, ttl time.Duration) *recipetest.Client

	// Monitor begins to watch all entries below the root.
	Monitor(t testing.TB) Monitor

	// Key makes a key outside of the root that a holder can write, and returns it.
	// Write writes it if the guard of a hold is true, and reports whether it did.
	// Written returns its value and how often it was written.
	Key(t testing.TB) string
	Write(t testing.TB, h *session.Hold, key, value string) bool
	Written(t testing.TB, key string) (value string, times int)
}

// Monitor watches a root at the server; [History] has its methods.
type Monitor interface {
	SeesMade(t testing.TB, n int)
	EndOf(t testing.TB, u worker.Turn) driver.Instant
	SeesNothingLeft(t testing.TB)
	CheckTurns(t testing.TB, turns []worker.Turn, oneSession bool)
}

// Layout is a root in which other clients have entries of one layout.
type Layout struct {
	Clients [3]*recipetest.Client // with [recipetest.EventTTL]

	// Kinds is how many kinds of entries other clients have. Foreign puts those from
	// one number to another into a queue.
	Kinds   int
	Foreign func(t testing.TB, name string, from, to int) ForeignEntries
}

// aCase is a promise of both services.
type aCase func(t *testing.T, s Service)

// Run runs each case on a service of its own, as a subtest. The case that measures comes
// first, alone, before the others have let tables grow; etcd and ZooKeeper share it by Turn.
func Run(t *testing.T, kind string, service func(t testing.TB) Service) {
	measures := "ManyLocksInOneSessionCostLittle"
	if Turn(kind, 3)(measures) {
		t.Run(measures, func(t *testing.T) { manyLocks(t, service(t)) })
	}
	cases := processes(kind, func(t testing.TB) Processes { return service(t) })
	for name, c := range map[string]aCase{
		"PasswordsAreNeverShown":                           passwordsNeverShown,
		"ForeignEntriesOfAllKindsAreWaitedForInEveryQueue": foreignEntries,
		"ForeignRecordsNeverMakeAWrongGrant":               foreignRecords,
	} {
		cases[name] = func(t *testing.T) { c(t, service(t)) }
	}
	cases.Run(t)
}

// RunProcesses runs the cases with client processes, as Run does. All services share them by Turn.
func RunProcesses(t *testing.T, kind string, service func(t testing.TB) Processes) {
	processes(kind, service).Run(t)
}

func processes(kind string, service func(t testing.TB) Processes) Cases {
	turn, cases := Turn(kind, 1), Cases{}
	for name, c := range map[string]func(*testing.T, Processes){
		"TwentyProcessesTakeTurnsInOrder":    twentyProcesses,
		"AHundredGoroutinesTakeTurnsInOrder": hundredGoroutines,
		"EveryRecipeOutlivesItsProcesses":    processesCrash,
		"AStoppedHoldersLateWriteIsRefused":  stoppedHolderIsRefused,
	} {
		if turn(name) {
			cases[name] = func(t *testing.T) { c(t, service(t)) }
		}
	}
	return cases
}

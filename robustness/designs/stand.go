package designs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// Stand is the servers of one store in one setup, with the locks that can be tried there.
type Stand interface {
	Name() string
	Setup() string

	// Open opens a client of a design, with a network of its own. timeout is the time of the lock, if the
	// design has one.
	Open(ctx context.Context, d *Design, timeout time.Duration) (trial.Client, error)

	// Process starts a client in its own process, and returns when that holds.
	Process(ctx context.Context, d *Design, queue string) (*trial.Process, error)

	// Break returns a fault at the servers; nil if this setup has none of that name.
	Break(fault string) *trial.Break

	// Healthy waits until all servers serve.
	Healthy(ctx context.Context) error

	Close() error
}

// setClock sets the clock of the program of a client.
func setClock(c trial.Client, ahead time.Duration) {
	own, ok := c.(*client)
	if !ok {
		return
	}
	if l, ok := own.locker.(lock.Clocked); ok {
		l.SetClock(ahead)
	}
}

// childArg is what the process of a holder needs.
type childArg struct {
	Store, Design string
	Target        json.RawMessage
}

// childName is the name of OpenChild.
const childName = "designs"

// spawn starts a client of an own design in a process.
func spawn(ctx context.Context, d *Design, queue string, target json.RawMessage) (*trial.Process, error) {
	arg := childArg{Store: d.Store, Design: d.Name, Target: target}
	return trial.Spawn(ctx, childName, history.Queue{Name: queue, Recipe: history.Mutex}, trial.Request{Weight: 1}, arg)
}

// openChild is the trial.Opener of the processes of spawn.
func openChild(_ context.Context, arg json.RawMessage) (trial.Client, error) {
	var a childArg
	if err := json.Unmarshal(arg, &a); err != nil {
		return nil, fmt.Errorf("designs: client process: %w", err)
	}
	d := DesignOf(a.Store, a.Design)
	if d == nil {
		return nil, fmt.Errorf("designs: client process: there is no design %q", a.Design)
	}
	return d.reach(d, a.Target, trial.TTL)
}

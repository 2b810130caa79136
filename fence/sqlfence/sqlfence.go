package sqlfence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// ErrNoHold means that the context comes from no hold, so there is no token to show.
var ErrNoHold = errors.New("the context comes from no hold of a lock")

// Access is an access of a hold to what one lock protects.
type Access struct {
	// Name is the name of the lock. Part is "" for all that the lock protects, and the number
	// of the slot for a semaphore's hold.
	Name, Part string

	Token session.Token
	Mode  session.Mode // "" means session.Exclusive
}

// Of returns the accesses of a hold: one for each of its locks.
func Of(h *session.Hold) []Access {
	var part string
	if h.Slot() >= 0 {
		part = strconv.Itoa(h.Slot())
	}
	var all []Access
	for _, name := range h.Names() {
		all = append(all, Access{Name: name, Part: part, Token: h.Token(), Mode: h.Mode()})
	}
	return all
}

// resource returns the access's resource for people.
func (a Access) resource() string {
	if a.Part == "" {
		return a.Name
	}
	return a.Name + ", part " + a.Part
}

// StaleError is a refused access. errors.Is reports true for fence.ErrStale, and errors.As finds
// the *fence.StaleError.
type StaleError struct {
	Resource string // the name of the lock, or the table and the key of a row, for people
	Err      *fence.StaleError
}

// Error returns the resource and both tokens.
func (e *StaleError) Error() string { return fmt.Sprintf("sqlfence: %q: %v", e.Resource, e.Err) }

// Unwrap returns the *fence.StaleError.
func (e *StaleError) Unwrap() error { return e.Err }

// Touch shows the tokens of accesses to the table of the marks, in one statement. Without accesses
// these are those of the hold that ctx comes from: see session.HoldFrom and Of. It records them,
// or returns a *StaleError if one of them is outbid by the rules of package fence. Inside of several
// holds the context has the innermost: give Touch the accesses of each that protects the data.
//
// After any error the caller rolls the transaction back. After nil, no other transaction touches
// these marks until this one has ended, and what it reads from now on is what the holders before
// have committed: see the package's documentation for what a read before Touch is worth.
//
// Of several accesses the marks are locked in the order of their names, so that two transactions
// with one call of Touch each do not wait for each other in a circle.
func (t Tx) Touch(ctx context.Context, accesses ...Access) error {
	accesses, err := prepared(ctx, accesses)
	if err != nil {
		return err
	}
	var args []any
	for _, a := range accesses {
		exclusive, shared := a.Token, session.Token(0)
		if a.Mode == session.Shared {
			exclusive, shared = 0, a.Token
		}
		args = append(args, t.dialect.text(a.Name), t.dialect.text(a.Part), int64(exclusive), int64(shared))
	}
	seen, err := t.touch(ctx, len(accesses), args)
	if err != nil {
		return fmt.Errorf("sqlfence: touch: %w", err)
	}
	for _, a := range accesses {
		marks, ok := seen[[2]string{a.Name, a.Part}]
		if !ok {
			return fmt.Errorf("sqlfence: touch %q: the statement has returned no marks", a.resource())
		}
		// The rules accept a second time what they have accepted.
		_, err := marks.Touch(a.Token, a.Mode)
		if err != nil {
			return refused(a.resource(), err)
		}
	}
	return nil
}

// prepared returns accesses that can be shown, in their order: those given, or those of ctx.
func prepared(ctx context.Context, accesses []Access) ([]Access, error) {
	accesses = slices.Clone(accesses)
	if len(accesses) == 0 {
		h, ok := session.HoldFrom(ctx)
		if !ok {
			return nil, fmt.Errorf("sqlfence: %w", ErrNoHold)
		}
		accesses = Of(h)
	}
	for i := range accesses {
		a := &accesses[i]
		a.Mode = cmp.Or(a.Mode, session.Exclusive)
		if a.Mode == session.Weighted && a.Part == "" {
			return nil, fmt.Errorf("sqlfence: %q: the holders of a semaphore have no order: use semaphore.Options.Slots", a.Name)
		}
		_, err := fence.Marks{}.Touch(a.Token, a.Mode)
		if err != nil {
			return nil, fmt.Errorf("sqlfence: %q: %w", a.resource(), err)
		}
	}
	slices.SortFunc(accesses, func(a, b Access) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Part, b.Part))
	})
	for i, a := range accesses[1:] {
		if a.Name == accesses[i].Name && a.Part == accesses[i].Part {
			return nil, fmt.Errorf("sqlfence: %q is named twice", a.resource())
		}
	}
	return accesses, nil
}

// refused adds the resource to an error of the rules.
func refused(resource string, err error) error {
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		return &StaleError{Resource: resource, Err: stale}
	}
	return fmt.Errorf("sqlfence: %q: %w", resource, err)
}

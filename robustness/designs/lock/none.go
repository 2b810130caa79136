package lock

import "context"

// None is no lock at all: all programs may go on at once. It shows that the trials see what a lock has to prevent.
type None struct{}

// Lock implements Locker.
func (None) Lock(context.Context, string) (Hold, error) { return None{}, nil }

// Unlock implements Hold.
func (None) Unlock(context.Context) error { return nil }

// Close implements Locker.
func (None) Close() error { return nil }

// Never is a lock whose holders do not release it. It shows that the trials see a lock that is never freed.
type Never struct{ Locker }

// Lock implements Locker.
func (n Never) Lock(ctx context.Context, name string) (Hold, error) {
	_, err := n.Locker.Lock(ctx, name)
	return None{}, err
}

// Package fairgoose makes replicas of a program migrate a database with goose one after the other.
//
// Where the program calls the Provider itself, a lock around the call needs no adapter, and its
// loss ends the context of the migration:
//
//	err := mutex.New(s, "goose/orders").Do(ctx, func(ctx context.Context, _ *session.Hold) error {
//		_, err := provider.Up(ctx)
//		return err
//	})
//
// Locker is for a Provider that others call, and for replicas that must not ask the lock service
// when nothing is pending. It takes any session.Session.
package fairgoose

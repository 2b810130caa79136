package redisbackend

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/redisbackend/internal/call"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Open opens a Session with the addresses, the login, the TLS configuration and the Sentinel options of a
// client. The Session makes three connections of its own and closes them; what the client would repeat, keep
// or send by itself is switched off. opts may be nil.
//
// Open returns an error that wraps session.ErrInvalidOptions (nothing was sent), session.ErrDenied,
// session.ErrRefused (a root of other options, a server that keeps no lock) or session.ErrUnavailable. The last
// comes when ctx ends (after 5 s if it has no deadline); during a quarantine it names the time that is left.
func Open(ctx context.Context, client rueidis.ClientOption, opts *Options) (*session.Session, error) {
	b, err := NewBackend(client, opts)
	if err != nil {
		return nil, err
	}
	return OpenBackend(ctx, b, opts)
}

// Dial is Open with a URL:
//
//	redis://user:password@host:6379/0?addr=host2:6379
//	rediss://host:6379/0?master_set=mymaster&addr=sentinel2:26379
//
// rediss is with TLS; valkey and valkeys mean the same as redis and rediss. Of several addresses the one counts
// that takes writes; in a cluster, some of its nodes are enough.
func Dial(ctx context.Context, url string, opts *Options) (*session.Session, error) {
	b, err := DialBackend(url, opts)
	if err != nil {
		return nil, err
	}
	return OpenBackend(ctx, b, opts)
}

// DialBackend returns the backend that Dial uses, for the conformance suite and for tools.
func DialBackend(url string, opts *Options) (driver.Backend, error) {
	client, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("redisbackend: %w: %w", session.ErrInvalidOptions, err)
	}
	return NewBackend(client, opts)
}

func parse(url string) (rueidis.ClientOption, error) {
	rest, valkey := strings.CutPrefix(url, "valkey")
	if valkey {
		url = "redis" + rest
	}
	return rueidis.ParseURL(url) //nolint:wrapcheck // the callers do
}

// OpenBackend is Open on a backend that NewBackend or DialBackend has returned. The Session owns it from then
// on: also after an error, it is closed.
func OpenBackend(ctx context.Context, b driver.Backend, opts *Options) (*session.Session, error) {
	var o session.Options
	if opts != nil {
		o = opts.Session
	}
	s, err := session.Engine(door.Key{}).Open(ctx, b, &o)
	if err != nil {
		return nil, fmt.Errorf("redisbackend: %w", err)
	}
	return s, nil
}

// Init makes a root, so that the first lock needs not wait for the greatest TTL. Use it once, before any
// program has used the root; it changes nothing where the root is there, and returns session.ErrRefused where
// programs wait for the end of a quarantine. It must not be used to end a quarantine:
// where the data of the root was lost, a program may still hold.
func Init(ctx context.Context, client rueidis.ClientOption, opts *Options) error {
	driverBackend, err := NewBackend(client, opts)
	if err != nil {
		return err
	}
	b := driverBackend.(*backend) //nolint:forcetypeassert // NewBackend has made it
	defer b.calls.Close()
	send := b.sender(context.Background(), b.calls, b.turns, nil) //nolint:contextcheck // no session can be over
	if err := b.init(ctx, send); err != nil {
		return fmt.Errorf("redisbackend: init: %w", err)
	}
	return nil
}

// init makes the root, if it may be used afterwards.
func (b *backend) init(ctx context.Context, send *call.Sender) error {
	e, err := b.examine(ctx, send, observed.Write{})
	if err != nil {
		return err
	}
	if err := b.check(e, false); err != nil || e.stored != "" {
		return err
	}
	a, err := send.Do(ctx, call.Request{
		Script: &b.set().Init,
		Args: func(int) script.Args {
			var a script.Args
			a.Int(b.opts.MaxTTL.Milliseconds(), int64(b.opts.Nodes))
			return a
		},
	})
	if err != nil {
		return err //nolint:wrapcheck // Init does
	}
	if a.Text(0) == script.Claimed {
		return fmt.Errorf("%w: programs have begun to use root %q, and wait until all holds from before its data was lost have ended; then it is made by itself",
			driver.ErrRefused, b.opts.Root)
	}
	e, err = b.examine(ctx, send, observed.Write{}) // another program may have been first
	if err != nil {
		return err
	}
	return b.check(e, false)
}

// InitURL is Init with a URL as Dial takes it.
func InitURL(ctx context.Context, url string, opts *Options) error {
	client, err := parse(url)
	if err != nil {
		return fmt.Errorf("redisbackend: %w: %w", session.ErrInvalidOptions, err)
	}
	return Init(ctx, client, opts)
}

// Intercept returns a backend whose requests go through a hook, for tests that lose requests and
// replies.
func Intercept(_ door.Key, b driver.Backend, hook call.Hook) driver.Backend {
	b.(*backend).hook = hook //nolint:forcetypeassert // of this package
	return b
}

package pgbackend

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session"
)

// The defaults of Options.
const (
	DefaultSchema = "fairlock"
	DefaultRoot   = "fairlock"
	DefaultMaxTTL = layout.DefaultMaxTTL
)

// MinMaxTTL is the least that can be the greatest TTL of a store.
const MinMaxTTL = minTTL

// ListenOff is the value of Options.Listen for programs that poll.
const ListenOff = "off"

// What PostgreSQL takes as the name of a schema, and what keeps root and name well below what it
// takes as a key of an index.
const (
	maxSchema = 63
	maxRoot   = 512
)

// Options are the options of Open, Dial and NewBackend. The zero value is ready to use.
type Options struct {
	// Session has the options of all backends: TTL, margin, label, hooks and logger. The
	// minimum TTL is 2 s. The maximum is the one that the tables were made with, one minute
	// or what "fairlock schema postgres --max-ttl" set.
	Session session.Options

	// Schema is the schema of the tables; "" means DefaultSchema. See Schema and Apply.
	Schema string

	// Root begins the names of the queues; "" means DefaultRoot. Two roots in one schema share
	// no lock. It has at most 512 bytes of UTF-8, without control characters.
	Root string

	// Listen is where notifications come from. "" means where all else is sent. Where a pooler
	// is between that lends a connection for a transaction only (PgBouncer with pool_mode =
	// transaction), give the address of the server itself, as a URL that Dial takes; or "off":
	// then the first waiters of each queue poll, and so does a program that finds out that
	// notifications do not arrive.
	Listen string

	// BeforeConnect is called before each connection that the Session makes, with a copy of its
	// configuration, which it may change: to read a password or certificates again, or to get a
	// password that is valid for minutes only. An error of it counts as a server that does not
	// answer. Nil means what a pool of the caller has in the field of the same name. The calls of
	// a Session on a pool use the connections that the pool makes.
	BeforeConnect func(ctx context.Context, config *pgx.ConnConfig) error

	// AcceptWeaker opens a Session also where the server does not keep what a lock needs:
	// where fsync is off, and where two of the servers in the URL are primaries. Then two
	// clients may hold at once after a crash of the server, or at any time.
	AcceptWeaker bool

	// Create makes the tables if they are missing, as Apply does. It is for tests: in
	// production a role that may create tables makes them once.
	Create bool
}

// checked returns a copy with the defaults filled in, or what is wrong. o may be nil. Package
// session checks its part, before anything is sent too.
func (o *Options) checked() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Root == "" {
		c.Root = DefaultRoot
	}
	if err := checkSchema(c.Schema); err != nil {
		return c, err
	}
	switch {
	case len(c.Root) > maxRoot || !utf8.ValidString(c.Root) || strings.ContainsFunc(c.Root, control):
		return c, fmt.Errorf("%w: Root must be at most %d bytes of UTF-8 without control characters", session.ErrInvalidOptions, maxRoot)
	case address.CheckPath(c.Root) != nil:
		return c, fmt.Errorf("%w: Root %q %w", session.ErrInvalidOptions, c.Root, address.CheckPath(c.Root))
	}
	return c, nil
}

func checkSchema(name string) error {
	if name == "" || len(name) > maxSchema || !utf8.ValidString(name) || strings.ContainsFunc(name, control) {
		return fmt.Errorf("%w: Schema %q must be 1 to %d bytes of UTF-8 without control characters", session.ErrInvalidOptions, name, maxSchema)
	}
	return nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

func (o *Options) layout() layout.Layout { return layout.Layout{Schema: o.Schema, Root: o.Root} }

// minTTL is far above what a commit takes, also on a busy server.
const minTTL = 2 * time.Second

package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

// Open finds the service, writes warnings and progress, and opens a Session. Options in o
// override those of the URL. Its errors have exit codes and are one sentence each.
func (f *Flags) Open(ctx context.Context, stderr io.Writer, o session.Options) (*session.Session, error) {
	t, err := f.Target()
	if err != nil {
		return nil, err
	}
	for _, w := range t.Warnings {
		fmt.Fprintf(stderr, "fairlock: warning: %s\n", w)
	}
	progress := screen.NewProgress(stderr, "connecting to "+t.Address.String())
	defer progress.Close()
	return t.Open(ctx, o)
}

// ForTools returns options with which a Session opens also on a service that takes no new sessions.
func ForTools(o session.Options) session.Options {
	session.Engine(door.Key{}).ForTools(&o)
	return o
}

// Open opens a Session on the service. Options in o override those of the URL.
func (t *Target) Open(ctx context.Context, o session.Options) (*session.Session, error) {
	fo := t.Options
	fo.Session = o
	if o.Logger == nil { // stderr is for what the commands themselves report
		fo.Session.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := stores.Open(ctx, t.url, &fo)
	if err == nil && !t.readable(s.Health().Err) {
		err = s.Health().Err
		_ = s.Close() // it has nothing at the service
	}
	if err == nil {
		return s, nil
	}
	if o.TTL != 0 && errors.Is(err, session.ErrInvalidOptions) {
		_, why, _ := strings.Cut(err.Error(), session.ErrInvalidOptions.Error()+": ")
		return nil, exit.Of(&reworded{"--ttl: " + why, err})
	}
	return nil, exit.Of(t.explain(ctx, err))
}

// readable reports whether a Session ForTools can be of use that the service has refused to make, with
// err: nil if it has not. An etcd whose quota is used up takes no session, and answers reads. A login of
// PostgreSQL or of Redis may be one that may only read.
func (t *Target) readable(err error) bool {
	server, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, session.ErrDenied):
		return server != nil && server.Code == noPrivilege || strings.Contains(err.Error(), mayRead)
	case errors.Is(err, session.ErrRefused):
		return t.Address.Service != address.Postgres && t.Address.Service != address.Redis
	}
	return true
}

// reworded is an error with another text; the original error stays in the chain.
type reworded struct {
	text string
	err  error
}

func (e *reworded) Error() string { return e.text }

func (e *reworded) Unwrap() error { return e.err }

// explain returns an error that states in one sentence what went wrong, for a user who
// does not know the packages that err came through.
func (t *Target) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil: // the user does not wait for a reason any more
		return exit.With(exit.Interrupted, context.Cause(ctx))
	case t.Address.Service == address.Postgres:
		return t.ExplainPostgres(ctx, err)
	case t.Address.Service == address.Redis:
		return t.ExplainRedis(ctx, err)
	case errors.Is(err, session.ErrDenied) && t.Options.Username != "":
		return &reworded{fmt.Sprintf("%s refuses the login as %q: check --user and --password-file, or the login in %s",
			t.Address, t.Options.Username, t.From), err}
	case errors.Is(err, session.ErrDenied):
		text := fmt.Sprintf("%s needs a login: want --user and --password-file, or --cert and --key", t.Address)
		if t.Address.Service == address.ZooKeeper {
			text += "; logins by SASL are not supported"
		}
		return &reworded{text, err}
	case status.Code(err) == codes.Unimplemented: // the server speaks gRPC, but has no leases
		return &reworded{fmt.Sprintf("what answers at %s is no etcd: check the port in %s", strings.Join(t.Address.Hosts, ","), t.From), err}
	case errors.Is(err, session.ErrUnavailable):
		return &reworded{t.unreachable(ctx), err}
	}
	return &reworded{t.From + ": " + strings.TrimPrefix(err.Error(), "stores: open: "), err}
}

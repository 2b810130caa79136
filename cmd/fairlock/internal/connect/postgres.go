package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

// noPrivilege is the SQLSTATE of a good login that lacks a privilege.
const noPrivilege = "42501"

// Postgres connects to one server of a PostgreSQL, one of Address.Hosts, also if that is a standby.
func (t *Target) Postgres(ctx context.Context, server string) (*pgx.Conn, error) {
	config, o, err := t.PostgresConfig()
	if err != nil {
		return nil, err
	}
	config.Host, config.Port = address.HostPort(server)
	config.Fallbacks = nil
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // also behind a pooler
	if err := o.BeforeConnect(ctx, config); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}

// PostgresConfig returns how Open connects to PostgreSQL.
func (t *Target) PostgresConfig() (*pgx.ConnConfig, *pgbackend.Options, error) {
	return stores.PostgresConfig(t.url, &t.Options)
}

// ExplainPostgres is explain for an error of PostgreSQL, which reports itself what is wrong.
func (t *Target) ExplainPostgres(ctx context.Context, err error) error {
	server, answered := errors.AsType[*pgconn.PgError](err)
	_, why, refused := strings.Cut(err.Error(), session.ErrRefused.Error()+": ")
	switch {
	case errors.Is(err, session.ErrUnavailable):
		return &reworded{t.postgresReasons(ctx, err), err}
	case !answered && refused: // by pgbackend
		return &reworded{fmt.Sprintf("%s: %s", t.Address, why), err}
	case !answered:
		return &reworded{t.From + ": " + strings.TrimPrefix(err.Error(), "stores: open: "), err}
	case server.Code == noPrivilege:
		return &reworded{fmt.Sprintf(`%s: %s: "fairlock schema postgres --help" has the privileges that are needed`, t.Address, server.Message), err}
	case errors.Is(err, session.ErrDenied):
		return &reworded{fmt.Sprintf("%s refuses the login: %s: check --user and --password-file, or the login in %s", t.Address, server.Message, t.From), err}
	}
	// What pgbackend adds is better than what the server reports, if it adds something.
	text := server.Message + ": check " + t.From
	ours, _, added := strings.Cut(why, ": "+server.Error())
	if added && !strings.HasPrefix(ours, "not sent") {
		text = ours
	}
	return &reworded{fmt.Sprintf("%s: %s", t.Address, text), err}
}

// PostgresReasons returns why no server could be used. If the primary answers, err has the reason.
func (t *Target) postgresReasons(ctx context.Context, err error) string {
	reasons := make([]string, len(t.Address.Hosts))
	var all sync.WaitGroup
	for i, host := range t.Address.Hosts {
		all.Go(func() { reasons[i] = t.ProbePostgres(ctx, host) })
	}
	all.Wait()
	if slices.Contains(reasons, "") {
		return fmt.Sprintf("%s: %s", t.Address, withoutLayers(err))
	}
	check := t.From + ", the network, and whether the servers run"
	for _, r := range reasons {
		switch r {
		case noTLS:
			check = "sslmode in " + t.From
		case standby:
			check = "whether " + t.From + " names the primary"
		}
	}
	return fmt.Sprintf("cannot reach %s within %s: %s: check %s", t.Address, t.Within(), join(t.Address.Hosts, reasons), check)
}

// withoutLayers returns the part of an ErrUnavailable that users can do something with: not which
// packages it came through, and not that the time was up.
func withoutLayers(err error) string {
	unavailable, late := session.ErrUnavailable.Error()+": ", context.DeadlineExceeded.Error()
	_, text, _ := strings.Cut(err.Error(), unavailable)
	var parts []string
	for part := range strings.SplitSeq(text, unavailable) {
		part = strings.TrimSuffix(strings.TrimPrefix(part, late+": "), ": ")
		part = strings.TrimSuffix(part, ": "+late)
		if part != late && part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "it answers too slowly"
	}
	return strings.Join(parts, ": ")
}

// The reasons of PostgreSQL only.
const (
	noTLS   = "it does not speak TLS"
	standby = "it is a standby"
)

// ProbePostgres returns why a server of PostgreSQL cannot be used, "" for a primary. It takes at
// most probeTimeout.
func (t *Target) ProbePostgres(ctx context.Context, server string) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := t.Postgres(ctx, server)
	if err != nil {
		return PostgresReason(err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing of it is left
	recovering := false
	err = conn.QueryRow(ctx, "select pg_is_in_recovery()").Scan(&recovering)
	switch {
	case err != nil:
		return PostgresReason(err)
	case recovering:
		return standby
	}
	return ""
}

// PostgresReason returns what is wrong with a server by the error of a connection to it.
func PostgresReason(err error) string {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Message
	}
	text := err.Error()
	_, tls, ok := strings.Cut(text, "tls error: ")
	switch {
	case strings.HasSuffix(text, "server refused TLS connection"):
		return noTLS
	case ok && !isTimeout(err):
		return tls
	case isTimeout(err) && !strings.Contains(text, "dial"):
		return answersNot
	case isClosed(err):
		return closes
	}
	return reason(err)
}

// Primary connects to the primary of a PostgreSQL. Its error is one sentence.
func (t *Target) Primary(ctx context.Context) (*pgx.Conn, error) {
	config, o, err := t.PostgresConfig()
	if err != nil {
		return nil, &reworded{t.From + ": " + strings.TrimPrefix(err.Error(), "stores: "), err}
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // also behind a pooler
	if len(t.Address.Hosts) > 1 {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	err = o.BeforeConnect(ctx, config)
	var conn *pgx.Conn
	if err == nil {
		conn, err = pgx.ConnectConfig(ctx, config)
	}
	if err == nil {
		return conn, nil
	}
	kind := session.ErrUnavailable
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		kind = session.ErrRefused
		if strings.HasPrefix(server.Code, "28") || server.Code == noPrivilege {
			kind = session.ErrDenied
		}
	}
	return nil, t.explain(ctx, fmt.Errorf("%w: %w", kind, err))
}

package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/internal/hang"
)

// URL returns the URL of the database "postgres" for the role "postgres", which may do anything.
func (s *Server) URL() string { return s.URLAs(superuser, "") }

// URLAs returns the URL of the database "postgres" for a role, which must exist. Without
// Options.Access no role needs a password.
func (s *Server) URLAs(role, password string) string {
	query := url.Values{"sslmode": {"disable"}}
	if s.ca != nil {
		query = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {s.ca.File()}}
	}
	return urlOf(s.addr, role, password, database, query)
}

// portOf returns the port of "host:port".
func portOf(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }

func urlOf(addr, role, password, database string, query url.Values) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Host: addr, Path: database, RawQuery: query.Encode()}
	if password != "" {
		u.User = url.UserPassword(role, password)
	}
	return u.String()
}

// Socket returns the folder of the server's socket, which a program may use as the host. The role
// needs no password there.
func (s *Server) Socket() string { return s.dir.Path() }

// Conn returns a connection as the role "postgres", through the server's socket. It is closed when
// the test ends, before a server that New started earlier. Conn fails the test if it cannot
// connect.
func (s *Server) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := s.Connect(hang.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // the server may be gone
	return conn
}

// Connect returns a connection as the role "postgres", through the server's socket. The caller
// closes it.
func (s *Server) Connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, s.admin())
	if err != nil {
		return nil, fmt.Errorf("pgtest: connect: %w", err)
	}
	return conn, nil
}

// admin returns what connects through the server's socket.
func (s *Server) admin() string {
	port := portOf(s.addr)
	query := url.Values{"host": {s.dir.Path()}, "port": {port}, "sslmode": {"disable"}}
	return urlOf("", superuser, "", database, query)
}

// Exec runs SQL on a connection of its own, as the role "postgres". Without arguments the SQL may
// be several statements, which are one transaction.
func (s *Server) Exec(ctx context.Context, sql string, args ...any) error {
	conn, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing of it is left
	_, err = conn.Exec(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("pgtest: execute: %w", err)
	}
	return nil
}

// Value returns the one value of a query's one row. The query runs on a connection of its own, as
// the role "postgres".
func Value[T any](ctx context.Context, s *Server, sql string, args ...any) (T, error) {
	var value T
	conn, err := s.Connect(ctx)
	if err != nil {
		return value, err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing of it is left
	err = conn.QueryRow(ctx, sql, args...).Scan(&value)
	if err != nil {
		return value, fmt.Errorf("pgtest: query: %w", err)
	}
	return value, nil
}

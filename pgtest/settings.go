package pgtest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Set changes a setting of the running server, with "alter system". It returns when the server has
// read it: later connections have it then, others soon after. A setting that needs a restart has
// effect after the next one. It stays until Reset.
func (s *Server) Set(ctx context.Context, name, value string) error {
	if !settable(name) {
		return fmt.Errorf("pgtest: setting %q, want a name", name)
	}
	return s.alter(ctx, "alter system set "+name+" to "+quoted(value))
}

// Reset ends Set.
func (s *Server) Reset(ctx context.Context, name string) error {
	if !settable(name) {
		return fmt.Errorf("pgtest: setting %q, want a name", name)
	}
	return s.alter(ctx, "alter system reset "+name)
}

// alter changes the configuration, and returns when the postmaster has read it.
func (s *Server) alter(ctx context.Context, change string) error {
	conn, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing of it is left
	before, err := loaded(ctx, conn)
	if err != nil {
		return err
	}
	for _, sql := range []string{change, "select pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("pgtest: %s: %w", sql, err)
		}
	}
	return s.until(ctx, func(ctx context.Context) (bool, error) {
		later, err := s.Connect(ctx)
		if err != nil {
			return false, err
		}
		defer func() { _ = later.Close(ctx) }() // nothing of it is left
		at, err := loaded(ctx, later)
		return !at.Equal(before), err
	})
}

// loaded returns when the postmaster had last read its configuration as it started a connection.
func loaded(ctx context.Context, conn *pgx.Conn) (at time.Time, err error) {
	err = conn.QueryRow(ctx, "select pg_conf_load_time()").Scan(&at)
	return at, err
}

// until returns when ok does, or with its error.
func (s *Server) until(ctx context.Context, ok func(context.Context) (bool, error)) error {
	for {
		done, err := ok(ctx)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

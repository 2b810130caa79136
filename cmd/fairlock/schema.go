package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/pgbackend"
)

const schemaHelp = `Print the statements that make the tables of fairlock in PostgreSQL, or with
--apply make them. Only PostgreSQL has tables: etcd and ZooKeeper need nothing.

--apply can be repeated, also by two programs at once: tables that are there
stay as they are, and --max-ttl can only rise. It is the greatest --ttl that
sessions may have, and also for how long no lock is granted after a failover.

The login that makes them needs CREATE on the database, or on the schema if
that is there. The login that locks needs:

  GRANT USAGE ON SCHEMA fairlock TO app;
  GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fairlock TO app;
  GRANT SELECT, UPDATE ON SEQUENCE fairlock.place TO app;

USAGE on the schema and SELECT on the tables are enough for who, ls, top and ui.

Exit codes: 0 done, 69 the database is unreachable or refuses it, 77 no
permission.`

// schemaOf is the only service that has tables.
const schemaOf = "postgres"

func (a *app) schemaCommand() *cobra.Command {
	var apply bool
	var name string
	var maxTTL span
	cmd := &cobra.Command{
		Use:   "schema postgres [URL]",
		Short: "Print or make the tables in PostgreSQL",
		Long:  schemaHelp,
		Example: `  fairlock schema postgres | psql app                     # by another program
  fairlock schema postgres --apply postgres://localhost/app
  fairlock schema postgres --apply --max-ttl 5m           # with FAIRLOCK_ON`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New(`want the service that has tables: fairlock schema postgres`)
			case args[0] != schemaOf:
				return fmt.Errorf("%q has no tables: want fairlock schema postgres", args[0])
			case len(args) > 2:
				return fmt.Errorf("unexpected %q after the URL", args[2])
			}
			return nil
		},
		ValidArgs: []string{schemaOf},
	}
	fs := cmd.Flags()
	fs.BoolVar(&apply, "apply", false, "make the tables, in the database of URL or --on")
	fs.StringVar(&name, "schema", "", "the schema of the tables, `NAME` (default that of the\nURL, or fairlock)")
	fs.Var(&maxTTL, "max-ttl", "the greatest TTL of a session, `DURATION` (default 1m)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			if a.conn.On != "" || a.conn.Context != "" {
				return errors.New("URL and --on or --context exclude each other")
			}
			a.conn.On = args[1]
		}
		t, err := a.conn.Target()
		switch {
		case !apply && err != nil && len(args) == 1:
			t = nil // nothing is sent
		case err != nil:
			return err
		case t.Address.Service != address.Postgres && (apply || len(args) == 2):
			return fmt.Errorf("%s names %s, which has no tables: want a URL such as postgres://localhost/app", t.From, t.Address)
		}
		if name == "" && t != nil {
			name = t.Address.Schema
		}
		if !apply {
			text, err := pgbackend.Schema(name, maxTTL.d)
			if err != nil {
				return badSchema(err)
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
			return nil
		}
		return a.applySchema(cmd, t, name, maxTTL)
	}
	return cmd
}

// badSchema returns the error of a name or a TTL that is no good.
func badSchema(err error) error {
	_, why, _ := strings.Cut(err.Error(), "invalid options: ")
	return errors.New(why)
}

// applySchema makes the tables.
func (a *app) applySchema(cmd *cobra.Command, t *connect.Target, name string, maxTTL span) error {
	if _, err := pgbackend.Schema(name, maxTTL.d); err != nil {
		return badSchema(err)
	}
	for _, w := range t.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "fairlock: warning: %s\n", w)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), t.Within())
	defer cancel()
	return during(cmd, "making the tables in "+t.Address.String(), func() error {
		conn, err := t.Primary(ctx)
		if err != nil {
			return exit.Of(err)
		}
		defer func() { _ = conn.Close(ctx) }() // nothing of it is left
		if err := pgbackend.Apply(ctx, conn, name, maxTTL.d); err != nil {
			return exit.Of(t.ExplainPostgres(ctx, err))
		}
		r, err := pgbackend.Examine(ctx, conn, name)
		if err != nil {
			return exit.Of(t.ExplainPostgres(ctx, err))
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: schema %q has the tables of version %d; the greatest TTL is %s\n", t.Address, r.Schema, r.Layout, r.MaxTTL)
		return nil
	})
}

package designs

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/designs/sqllocks"
	"github.com/fairlock/fairlock/robustness/onpg"
	"github.com/fairlock/fairlock/robustness/trial"
)

// startPostgres starts a stand on PostgreSQL.
func startPostgres(ctx context.Context, setup string) (Stand, error) {
	s, err := onpg.Start(ctx, setup)
	if err != nil {
		return nil, err
	}
	dialect := sqllocks.Postgres()
	if err := s.Prepare(ctx, sqllocks.Schema, strings.Join(dialect.Tables, ";\n")); err != nil {
		return nil, errors.Join(err, s.Close()) //nolint:contextcheck // it bounds itself
	}
	names := map[string]map[string]string{
		onpg.Direct:       {Restarted: "servers-killed", ClockMoved: "clock-ahead"},
		onpg.Asynchronous: {FailedOver: "promotion-of-a-lagging"},
	}
	return &service{
		Service: s,
		open: func(d *Design, timeout time.Duration) (trial.Client, error) {
			n, err := s.Near()
			if err != nil {
				return nil, err
			}
			return d.onSQL(n, dialect, n.URL(), timeout)
		},
		target: func() (json.RawMessage, error) { return json.Marshal(s.URL()) },
		breaks: func(fault string) *trial.Break { return s.Break(names[setup][fault]) },
	}, nil
}

// onSQL returns a client of an own design. It closes n if that fails.
func (d *Design) onSQL(n network, dialect *sqllocks.Dialect, dsn string, timeout time.Duration) (trial.Client, error) {
	db, err := dialect.Open(dsn)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	l := d.sql(db, timeout)
	return &client{network: n, locker: l}, nil
}

// reachSQL opens a client in a process.
func reachSQL(dialect *sqllocks.Dialect) func(d *Design, target json.RawMessage, timeout time.Duration) (trial.Client, error) {
	return func(d *Design, target json.RawMessage, timeout time.Duration) (trial.Client, error) {
		var dsn string
		if err := json.Unmarshal(target, &dsn); err != nil {
			return nil, err
		}
		return d.onSQL(direct{}, dialect, dsn, timeout)
	}
}

// postgresDesigns are the designs on PostgreSQL.
func postgresDesigns() []*Design {
	own := sqlDesigns(sqllocks.Postgres())
	return append(own[:2:2], &Design{Name: onpg.Lease}, own[2], own[3], &Design{Name: onpg.Advisory}, &Design{Name: trial.Ours}, own[4])
}

// sqlDesigns are the own designs on a database: two rows, two of a session, and no lock.
func sqlDesigns(dialect *sqllocks.Dialect) []*Design {
	all := []*Design{
		{Name: "row", sql: func(db *sqllocks.DB, _ time.Duration) lock.Locker { return &sqllocks.Row{DB: db} }},
		{Name: "row, monitor", sql: func(db *sqllocks.DB, timeout time.Duration) lock.Locker { return sqllocks.Monitor(db, timeout) }},
		{Name: "for update", sql: func(db *sqllocks.DB, _ time.Duration) lock.Locker { return &sqllocks.ForUpdate{DB: db} }},
		{Name: "advisory, pool", sql: func(db *sqllocks.DB, _ time.Duration) lock.Locker { return &sqllocks.Advisory{DB: db} }},
		{Name: noLock, planted: true, sql: func(*sqllocks.DB, time.Duration) lock.Locker { return lock.None{} }},
	}
	for _, d := range all {
		d.reach = reachSQL(dialect)
	}
	return all
}

package onpg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/robustness/trial"
)

// The setups, which a trial.Service calls transports.
const (
	Direct       = "direct"           // one server
	PoolerListen = "PgBouncer+LISTEN" // PgBouncer in transaction mode, and notifications from the server itself
	Pooler       = "PgBouncer"        // PgBouncer only: clients poll
	Synchronous  = "synchronous"      // one standby, for which each commit waits
	Asynchronous = "asynchronous"     // one standby, which may lag
)

// Setups returns all setups, the default first.
func Setups() []string { return []string{Direct, PoolerListen, Pooler, Synchronous, Asynchronous} }

// app is the role of the clients. It has the least rights, and the server can limit it.
const app = "app"

// standbyName is what the primary calls its standby.
const standbyName = "other"

// The greatest TTLs, for which nothing is granted after a promotion.
const (
	maxTTL  = 4 * time.Second
	longTTL = 15 * time.Second
)

// hasStandby reports whether a setup has a standby.
func hasStandby(setup string) bool { return setup == Synchronous || setup == Asynchronous }

// start starts the servers of a setup, with the tables.
func (s *Service) start(ctx context.Context) (err error) {
	opts := &pgtest.Options{
		Clock: s.setup == Direct,
		// A client that is cut off keeps its connections for as long as the server does not notice.
		Config: map[string]string{"max_connections": "600"},
	}
	if s.setup == Direct {
		s.disk, err = newDisk()
		if err != nil {
			return err
		}
		opts.Dir = s.disk.folder()
		opts.Config["wal_recycle"] = "off" // so that a new segment of the log needs room
	}
	s.primary, err = pgtest.Start(ctx, opts)
	if err != nil {
		return err
	}
	s.first = s.primary
	if err := s.makeTables(ctx); err != nil {
		return err
	}
	switch {
	case s.setup == Pooler || s.setup == PoolerListen:
		s.pooler, err = s.primary.Bouncer(ctx, &pgtest.BouncerOptions{PoolSize: 100, Config: map[string]string{"max_client_conn": "1000"}})
		return err
	case hasStandby(s.setup):
		return s.addStandby(ctx)
	}
	return nil
}

// makeTables makes the tables of Fairlock and of the peers, and the role of the clients.
func (s *Service) makeTables(ctx context.Context) error {
	conn, err := s.primary.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // it was only used to set up
	if err := pgbackend.Apply(ctx, conn, "", maxTTL); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, logTables+leaseTable+`
create role `+app+` login;
grant usage on schema fairlock, robustness to `+app+`;
grant select, insert, update, delete on all tables in schema fairlock to `+app+`;
grant usage, select, update on all sequences in schema fairlock to `+app+`;
grant select, insert, update, delete on robustness.lease to `+app+`;
create table robustness.mark (n bigint);
insert into robustness.mark values (0)`)
	if err != nil {
		return fmt.Errorf("onpg: make tables: %w", err)
	}
	return nil
}

// addStandby starts a standby of the primary.
func (s *Service) addStandby(ctx context.Context) (err error) {
	s.standby, err = s.primary.Standby(ctx, &pgtest.StandbyOptions{Name: standbyName})
	if err == nil && s.setup == Synchronous {
		err = s.primary.Set(ctx, "synchronous_standby_names", standbyName)
	}
	if err == nil {
		err = s.standby.CatchUp(ctx)
	}
	return err
}

// promote kills the primary, and promotes the standby.
func (s *Service) promote(ctx context.Context) error {
	s.killPrimary()
	return s.standby.Promote(ctx)
}

// killPrimary kills the primary. The longest time for which a client may trust it begins now.
func (s *Service) killPrimary() {
	s.primary.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = now()
}

// failedOver makes the standby that was promoted the primary of the service, and adds another
// standby.
func (s *Service) failedOver(ctx context.Context) error {
	s.setTTL(trial.TTL)
	s.mu.Lock()
	s.primary, s.standby = s.standby, nil
	s.mu.Unlock()
	err := errors.Join(s.feed.follow(ctx, s.primary), s.reconnect(ctx), s.addStandby(ctx))
	s.keep() //nolint:contextcheck // it outlives the call
	return err
}

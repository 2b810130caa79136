package designs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/mysqltest"
	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/designs/sqllocks"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/testnet"
)

// mariaName is the name of the store.
const mariaName = "mariadb"

// maria is a stand on one MariaDB server. The trials know it by no trial.Service: neither Fairlock nor a peer runs
// there.
type maria struct {
	server  *mysqltest.Server
	dialect *sqllocks.Dialect
}

// startMariaDB starts a stand on MariaDB.
func startMariaDB(ctx context.Context, _ string) (Stand, error) {
	if err := mysql.SetLogger(log.New(io.Discard, "", 0)); err != nil { // faults are what the trials make
		return nil, err
	}
	server, err := mysqltest.Start(ctx, nil)
	if err != nil {
		return nil, err
	}
	s := &maria{server, sqllocks.MariaDB()}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return s, nil
}

func (s *maria) prepare(ctx context.Context) error {
	db, err := sql.Open(s.dialect.Driver, s.server.DSN())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it was only used to set up
	for _, statement := range s.dialect.Tables {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// dsn returns what a client connects with through an address.
func dsn(addr string) string {
	return "root@tcp(" + addr + ")/" + sqllocks.Schema + "?timeout=1s&interpolateParams=true"
}

// Name implements Stand.
func (*maria) Name() string { return mariaName }

// Setup implements Stand.
func (*maria) Setup() string { return "" }

// Open implements Stand.
func (s *maria) Open(_ context.Context, d *Design, timeout time.Duration) (trial.Client, error) {
	p, err := testnet.New(s.server.Addr(), nil)
	if err != nil {
		return nil, err
	}
	return d.onSQL(tcpproxy.Proxies{p}, s.dialect, dsn(p.Addr()), timeout)
}

// Process implements Stand.
func (s *maria) Process(ctx context.Context, d *Design, queue string) (*trial.Process, error) {
	target, err := json.Marshal(dsn(s.server.Addr()))
	if err != nil {
		return nil, err
	}
	return spawn(ctx, d, queue, target)
}

// Break implements Stand: the server is killed, and starts again with its data.
func (s *maria) Break(fault string) *trial.Break {
	if fault != Restarted {
		return nil
	}
	return &trial.Break{
		Least: 100 * time.Millisecond, Most: time.Second,
		Inject: func(context.Context, *rand.Rand, []trial.Target) error {
			s.server.Kill()
			return nil
		},
		End: s.server.Restart,
	}
}

// Healthy implements Stand.
func (s *maria) Healthy(ctx context.Context) error {
	db, err := sql.Open(s.dialect.Driver, s.server.DSN())
	if err != nil {
		return err
	}
	return errors.Join(db.PingContext(ctx), db.Close())
}

// Close implements Stand.
func (s *maria) Close() error { return s.server.Close() }

// mariaDesigns are the designs on MariaDB.
func mariaDesigns() []*Design {
	dialect := sqllocks.MariaDB()
	own := sqlDesigns(dialect)
	lease := &Design{Name: "row lease", renews: true, reach: reachSQL(dialect), sql: func(db *sqllocks.DB, timeout time.Duration) lock.Locker {
		return &sqllocks.Lease{DB: db, TTL: timeout}
	}}
	own[3].Name = "GET_LOCK, pool"
	return append(own[:2:2], lease, own[2], own[3], own[4])
}

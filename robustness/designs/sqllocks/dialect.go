// Package sqllocks has the locks that programs build on a table, as they are commonly shown, for PostgreSQL and
// for MariaDB. Each client is one pool of at most ten connections, as most services have it.
package sqllocks

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Connections is how many connections a pool has at most.
const Connections = 10

// Dialect is what differs between the two databases.
type Dialect struct {
	Driver string
	Tables []string // the statements that make the tables

	advise, release string // an advisory lock, by name
	now             string // the clock of the server, now and not at the begin of the transaction
	ignore          string // an insert that does nothing if the row is there; %s is the table and the values
	positional      bool   // parameters are ?
}

// Schema has the tables of the designs.
const Schema = "designs"

// tables are the tables of both; $time is the type of a time.
func tables(moment string) []string {
	all := []string{
		"create table designs.taken (name varchar(200) primary key, owner varchar(40) not null, since $time not null)",
		"create table designs.named (name varchar(200) primary key)",
		"create table designs.lease (name varchar(200) primary key, owner varchar(40) not null, token bigint not null, until $time not null)",
		"create table designs.account (name varchar(200) primary key, amount bigint not null, version bigint not null)",
	}
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "$time", moment)
	}
	return all
}

// Postgres returns the dialect of PostgreSQL.
func Postgres() *Dialect {
	return &Dialect{
		Driver: "pgx", Tables: append([]string{"create schema designs"}, tables("timestamptz")...),
		advise: "select pg_advisory_lock(hashtext($1))", release: "select pg_advisory_unlock(hashtext($1))",
		now: "clock_timestamp()", ignore: "insert into %s on conflict do nothing",
	}
}

// MariaDB returns the dialect of MariaDB.
func MariaDB() *Dialect {
	return &Dialect{
		Driver: "mysql", Tables: append([]string{"create database designs"}, tables("datetime(6)")...),
		advise: "select get_lock($1, 3600)", release: "select release_lock($1)",
		now: "sysdate(6)", ignore: "insert ignore into %s", positional: true,
	}
}

// Open opens a pool of connections.
func (d *Dialect) Open(dsn string) (*DB, error) {
	pool, err := sql.Open(d.Driver, dsn)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(Connections)
	pool.SetMaxIdleConns(Connections)
	return &DB{pool, d}, nil
}

// DB is a pool of connections of one program.
type DB struct {
	*sql.DB
	d *Dialect
}

// Work implements lock.Worker: one request of the program's own work.
func (db *DB) Work(ctx context.Context) error {
	_, err := db.ExecContext(ctx, "select 1")
	return err
}

// text returns a statement with the parameters $1, $2 … in order, each once, for this database.
func (d *Dialect) text(statement string) string {
	statement = strings.ReplaceAll(statement, "$now", d.now)
	if d.positional {
		for i := 9; i > 0; i-- {
			statement = strings.ReplaceAll(statement, fmt.Sprintf("$%d", i), "?")
		}
	}
	return statement
}

// inTime returns the expression of a time that is so far from the server's now.
func (d *Dialect) inTime(ahead time.Duration) string {
	if d.positional {
		return fmt.Sprintf("%s + interval %d microsecond", d.now, ahead.Microseconds())
	}
	return fmt.Sprintf("%s + interval '%d microseconds'", d.now, ahead.Microseconds())
}

// exec runs a statement and returns how many rows it changed.
func (db *DB) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	r, err := db.ExecContext(ctx, db.d.text(statement), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// insert inserts a row, and returns 0 if there is one with this key.
func (db *DB) insert(ctx context.Context, values string, args ...any) (int64, error) {
	return db.exec(ctx, fmt.Sprintf(db.d.ignore, values), args...)
}

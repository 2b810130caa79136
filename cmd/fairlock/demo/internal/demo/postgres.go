package demo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wal"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
)

// postgresService is a PostgreSQL server in processes of its own, read with plain SQL. Its events
// come from its write-ahead log: see package wal.
type postgresService struct {
	server *pgtest.Server
	admin  *pgxpool.Pool
	log    *wal.Follower
	queue  string // the stored name of the queue
}

func openPostgres(ctx context.Context, lock string) (_ service, err error) {
	s := &postgresService{queue: pgbackend.DefaultRoot + "\x01q" + lock}
	defer func() { //nolint:contextcheck // close bounds itself
		if err != nil {
			err = errors.Join(fmt.Errorf("start PostgreSQL: %w", err), s.close())
		}
	}()
	s.server, err = pgtest.Start(ctx, &pgtest.Options{Config: map[string]string{"wal_level": "logical"}})
	if err != nil {
		return nil, err
	}
	conn, err := s.server.Connect(ctx)
	if err != nil {
		return nil, err
	}
	err = errors.Join(makeTables(ctx, conn), conn.Close(ctx))
	if err != nil {
		return nil, err
	}
	s.admin, err = pgxpool.New(ctx, s.server.URL())
	if err != nil {
		return nil, err
	}
	return s, nil
}

// makeTables makes the tables, and one for the end mark. Tokens begin at 1, and not at the clock, so
// that they can be read: nothing has used this server before.
func makeTables(ctx context.Context, conn *pgx.Conn) error {
	if err := pgbackend.Apply(ctx, conn, "", 0); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "select setval('fairlock.place', 1); create table demo_end (at integer primary key)")
	return err
}

func (s *postgresService) close() error {
	if s.log != nil {
		_ = s.log.Close(context.Background()) // the server goes too
	}
	if s.admin != nil {
		s.admin.Close()
	}
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

func (s *postgresService) address() string { return s.server.URL() }

func (s *postgresService) follow(ctx context.Context, l listener) (run func(), err error) {
	s.log, err = wal.Begin(ctx, s.server.URL(), "fairlock.entry", "demo_end")
	if err != nil {
		return nil, err
	}
	return func() {
		err := s.log.Follow(ctx, func(c wal.Change) {
			if err := s.report(l, c); err != nil {
				l.fail(err)
			}
		})
		if err != nil {
			l.fail(err)
		}
	}, nil
}

func (s *postgresService) report(l listener, c wal.Change) error {
	if c.Table == "demo_end" {
		if c.Made {
			l.endMarked()
		}
		return nil
	}
	if string(c.Columns["queue"]) != s.queue {
		return nil
	}
	token, err := strconv.ParseInt(string(c.Columns["place"]), 10, 64)
	if err != nil {
		return fmt.Errorf("the place of an entry: %w", err)
	}
	if !c.Made {
		l.deleted(token, c.Commit)
		return nil
	}
	data, err := hex.DecodeString(strings.TrimPrefix(string(c.Columns["data"]), `\x`))
	if err != nil {
		return fmt.Errorf("the data of an entry: %w", err)
	}
	meta, _ := owner.DecodeMeta(data)
	l.created(entry{token: token, meta: meta})
	return nil
}

func (s *postgresService) markEnd(ctx context.Context) error {
	for _, sql := range []string{"insert into demo_end values (1)", "delete from demo_end"} {
		if _, err := s.admin.Exec(ctx, sql); err != nil {
			return fmt.Errorf("mark the end of the queue: %w", err)
		}
	}
	return nil
}

// first reads on the only server, so it sees all that was committed.
func (s *postgresService) first(ctx context.Context) (token int64, err error) {
	err = s.admin.QueryRow(ctx, "select coalesce(min(place), 0) from fairlock.entry where queue = $1", s.queue).Scan(&token)
	if err != nil {
		return 0, fmt.Errorf("read the first entry of the queue: %w", err)
	}
	return token, nil
}

// leftovers returns the rows of all tables but two: meta has one for ever, and watcher one for each
// queue that was watched by a client without an entry, which programs that run on delete an hour
// later.
func (s *postgresService) leftovers(ctx context.Context) (rows []string, sessions int, err error) {
	const all = `select 'entry ' || place from fairlock.entry union all select 'record ' || name from fairlock.record
		union all select 'member ' || id from fairlock.member union all select 'void ' || call from fairlock.void
		union all select 'done ' || call from fairlock.done`
	found, err := s.admin.Query(ctx, all)
	if err == nil {
		rows, err = pgx.CollectRows(found, pgx.RowTo[string])
	}
	if err == nil {
		err = s.admin.QueryRow(ctx, "select count(*) from fairlock.session").Scan(&sessions)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("count what is left: %w", err)
	}
	return rows, sessions, nil
}

package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Follower receives the changes that are committed after Begin has returned.
type Follower struct {
	conn    *pgconn.PgConn
	decoder *decoder
}

// Begin begins to follow some tables, for which it makes a publication. The server's wal_level must
// be "logical". url is a URL of PostgreSQL, and its login must be one that may replicate.
func Begin(ctx context.Context, url string, tables ...string) (*Follower, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	config.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	for _, sql := range []string{
		"create publication followed for table " + strings.Join(tables, ", "),
		"CREATE_REPLICATION_SLOT followed TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT", // capitals count
	} {
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
			return nil, errors.Join(fmt.Errorf("wal: %w", err), conn.Close(ctx))
		}
	}
	conn.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION SLOT followed LOGICAL 0/0 (proto_version '1', publication_names 'followed')"})
	if err := conn.Frontend().Flush(); err != nil {
		return nil, errors.Join(fmt.Errorf("wal: %w", err), conn.Close(ctx))
	}
	return &Follower{conn: conn, decoder: newDecoder()}, nil
}

// Close ends the Follower, and a call of Follow.
func (f *Follower) Close(ctx context.Context) error { return f.conn.Close(ctx) }

// Follow calls found for every change, soon after its transaction was committed. It returns nil when
// ctx ends. The Follower cannot be used afterwards.
func (f *Follower) Follow(ctx context.Context, found func(Change)) error {
	for {
		m, err := f.conn.ReceiveMessage(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller ended it
		}
		if err != nil {
			return fmt.Errorf("wal: %w", err)
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			return fmt.Errorf("wal: %w", pgconn.ErrorResponseToPgError(m))
		case *pgproto3.CopyData:
			if err := f.data(m.Data, found); err != nil {
				return fmt.Errorf("wal: %w", err)
			}
		}
	}
}

// header is how much of a message of the log is before that of the output plugin: two places in the
// log and a time.
const header = 8 + 8 + 8

// data handles one message of the log.
func (f *Follower) data(message []byte, found func(Change)) error {
	switch {
	case len(message) > header && message[0] == 'w':
		c, ok, err := f.decoder.decode(message[1+header:])
		if ok && err == nil {
			found(c)
		}
		return err
	case len(message) > header-8+1 && message[0] == 'k' && message[header-8+1] == 1:
		return f.alive(message[1:9])
	}
	return nil
}

// alive answers a server that asks whether this client is alive: with the place in the log that the
// server has reached.
func (f *Follower) alive(reached []byte) error {
	answer := []byte{'r'}
	for range 3 { // received, on the disk, applied
		answer = append(answer, reached...)
	}
	answer = binary.BigEndian.AppendUint64(answer, 0) // the time, which the server only shows
	f.conn.Frontend().Send(&pgproto3.CopyData{Data: append(answer, 0)})
	return f.conn.Frontend().Flush()
}

package onpg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// diskFull is the SQLSTATE of a statement that needs room on a full disk.
const diskFull = "53100"

// fillDisk fills the disk of the server, and the last page of the log of trials, to which each change
// of a queue adds a row: each fails with diskFull. In every second round the server also needs a new
// segment of its write-ahead log, and crashes because it cannot have one.
func (s *Service) fillDisk(ctx context.Context, rng *rand.Rand, _ at) error {
	if err := s.disk.fill(); err != nil {
		return err
	}
	conn, err := s.primary.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the server may have crashed
	if err := fillLog(ctx, conn); err != nil {
		return err
	}
	if rng.IntN(2) == 0 {
		return nil
	}
	_, err = conn.Exec(ctx, "select pg_switch_wal()")
	if err == nil { // another process of the server may have needed the segment before
		_, err = conn.Exec(ctx, "update robustness.mark set n = n + 1")
	}
	if err == nil {
		return errors.New("onpg: the server had room for another segment of its log")
	}
	return nil
}

// fillLog adds rows that are smaller than any other until there is no room for one more.
func fillLog(ctx context.Context, conn *pgx.Conn) error {
	for range 10000 {
		_, err := conn.Exec(ctx, "insert into robustness.log (queue, kind, place, shared, weight, permits) values ('', '', 0, false, 0, 0)")
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == diskFull {
			return nil
		}
		if err != nil {
			return fmt.Errorf("onpg: fill the log of trials: %w", err)
		}
	}
	return errors.New("onpg: the disk is not full")
}

// freeDisk makes room. A server that crashed is started again: it cannot recover on a full disk.
func (s *Service) freeDisk(ctx context.Context) error {
	if err := s.disk.free(); err != nil {
		return err
	}
	soon, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if _, err := s.Leader(soon); err == nil {
		return nil
	}
	return s.primary.Restart(ctx)
}

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// StandbyOptions are the options of Server.Standby. Nil is the same as the zero value.
type StandbyOptions struct {
	// Name is what synchronous_standby_names of the primary calls the standby. "" means
	// "standby1" for the first, and so on.
	Name string

	// Config are settings of the standby. It has those of the primary's Options.Config too,
	// and none of Server.Set.
	Config map[string]string
}

// Standby starts a hot standby of the server: a copy that receives its write-ahead log, answers
// reads, and can be promoted. It returns when the standby answers; see CatchUp. The server keeps
// the log for it as long as the server lives. Close of the server closes the standby too. Standby
// copies no tablespaces.
func (s *Server) Standby(ctx context.Context, opts *StandbyOptions) (*Server, error) {
	var o StandbyOptions
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = fmt.Sprintf("standby%d", s.standbys.Add(1))
	}
	own := s.opts
	own.Dir = ""
	own.Config = maps.Clone(own.Config)
	if own.Config == nil {
		own.Config = map[string]string{}
	}
	maps.Copy(own.Config, o.Config)
	standby, err := retried(func() (*Server, error) {
		b := newServer(own, s.as)
		b.primary, b.name = s, o.Name
		return b, b.begin(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("standby %q: %w", o.Name, err)
	}
	if err := s.adopt(standby); err != nil {
		return nil, errors.Join(err, standby.Close())
	}
	return standby, nil
}

// Name returns the name of a standby, which is its application_name on the primary; "" for
// another server.
func (s *Server) Name() string { return s.name }

// CutOff ends the flow of the write-ahead log from the primary to this standby, which answers from
// what it has. It returns when nothing more arrives.
func (s *Server) CutOff(ctx context.Context) error {
	if err := s.Set(ctx, "primary_conninfo", ""); err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) (bool, error) {
		n, err := Value[int](ctx, s, "select count(*) from pg_stat_activity where backend_type = 'walreceiver'")
		return n == 0, err
	})
}

// Rejoin ends CutOff. The standby gets what it has missed.
func (s *Server) Rejoin(ctx context.Context) error { return s.Reset(ctx, "primary_conninfo") }

// CatchUp returns when this standby shows all that its primary had committed at the call.
func (s *Server) CatchUp(ctx context.Context) error {
	if s.primary == nil {
		return errNoStandby
	}
	written, err := Value[string](ctx, s.primary, "select pg_current_wal_lsn()::text")
	if err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) (bool, error) {
		return Value[bool](ctx, s, "select coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false)", written)
	})
}

// Promote makes this standby a primary, with what it has of the log, and returns when it accepts
// writes. The old primary does not notice: kill it, unless two primaries are wanted.
func (s *Server) Promote(ctx context.Context) error {
	if s.primary == nil {
		return errNoStandby
	}
	if err := s.Exec(ctx, "select pg_promote(false)"); err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) (bool, error) {
		return Value[bool](ctx, s, "select not pg_is_in_recovery()")
	})
}

var errNoStandby = errors.New("pgtest: the server is not a standby")

// copyPrimary copies the data of the primary, while that runs, as described in "Making a Base
// Backup Using the Low Level API" of PostgreSQL's manual.
func (s *Server) copyPrimary(ctx context.Context) error {
	conn, err := s.primary.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing of it is left
	const reserve = "select pg_create_physical_replication_slot($1, true) where not exists (select from pg_replication_slots where slot_name = $1)"
	if _, err := conn.Exec(ctx, reserve, s.name); err != nil {
		return fmt.Errorf("pgtest: reserve the log: %w", err)
	}
	if _, err := conn.Exec(ctx, "select pg_backup_start($1, true)", s.name); err != nil {
		return fmt.Errorf("pgtest: begin to copy: %w", err)
	}
	if err := s.copyFiles(ctx, s.primary.data); err != nil {
		return fmt.Errorf("pgtest: copy: %w", err)
	}
	var label string
	if err := conn.QueryRow(ctx, "select labelfile from pg_backup_stop(false)").Scan(&label); err != nil {
		return fmt.Errorf("pgtest: end to copy: %w", err)
	}
	if err := s.write("backup_label", label); err != nil {
		return err
	}
	return s.write("standby.signal", "")
}

// notCopied are files of a server's own, and folders whose content is.
var notCopied = []string{
	pidFile, "postmaster.opts", "postgresql.auto.conf", "standby.signal", "backup_label",
	"pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans",
}

// copyFiles copies a data directory whose server runs: files may go meanwhile.
func (s *Server) copyFiles(ctx context.Context, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		top, inside, _ := strings.Cut(filepath.ToSlash(relative), "/")
		switch {
		case slices.Contains(notCopied, top) && (inside != "" || !d.IsDir()):
			return nil
		case d.IsDir():
			return s.makeFolder(relative)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.write(relative, string(data))
	})
}

func (s *Server) makeFolder(relative string) error {
	path := filepath.Join(s.data, relative)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return s.as.own(path)
}

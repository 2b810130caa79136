package pgtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// superuser is the role that owns the server, database the one that clients use.
const (
	superuser = "postgres"
	database  = "postgres"
)

// configure writes the configuration files of the server.
func (s *Server) configure() error {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    portOf(s.addr),
		"unix_socket_directories": s.dir.Path(),
		"max_connections":         "500",
		"shared_buffers":          "16MB",
		"max_wal_size":            "128MB",
		"min_wal_size":            "32MB",
		// Segments of POSIX would stay in /dev/shm when a server is killed; files stay in
		// the data directory.
		"dynamic_shared_memory_type": "mmap",
		"huge_pages":                 "off",
		"timezone":                   "UTC",
		"log_timezone":               "UTC",
		"log_line_prefix":            "%m [%p] ",
	}
	if s.primary != nil {
		settings["primary_conninfo"] = fmt.Sprintf("host=%s port=%s user=%s application_name=%s", conninfo(s.primary.dir.Path()), portOf(s.primary.addr), superuser, s.name)
		settings["primary_slot_name"] = s.name
		settings["wal_retrieve_retry_interval"] = "100ms" // the default, 5 s, is long for a test
	}
	kind := "host"
	if s.opts.TLS {
		kind = "hostssl"
		secure, err := s.secure()
		if err != nil {
			return fmt.Errorf("pgtest: certificates: %w", err)
		}
		maps.Copy(settings, secure)
	}
	maps.Copy(settings, s.opts.Config)
	if err := s.write("postgresql.conf", lines(settings)); err != nil {
		return err
	}
	access := slices.Concat(
		[]string{"local all all trust", "local replication all trust"},
		s.opts.Access,
		[]string{kind + " all all 127.0.0.1/32 trust", kind + " replication all 127.0.0.1/32 trust"},
	)
	return s.write("pg_hba.conf", strings.Join(access, "\n")+"\n")
}

// lines returns settings as lines of postgresql.conf.
func lines(settings map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = %s\n", name, quoted(settings[name]))
	}
	return text.String()
}

// quoted returns a text as postgresql.conf and SQL have it.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// conninfo returns a value as connection strings and pgbouncer.ini have it.
func conninfo(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(value) + "'"
}

// write writes a file of the data directory.
func (s *Server) write(name, text string) error {
	path := filepath.Join(s.data, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("pgtest: configuration: %w", err)
	}
	if err := s.as.own(path); err != nil {
		return fmt.Errorf("pgtest: configuration: %w", err)
	}
	return nil
}

package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairlock/fairlock/testnet"
)

// admin is the user of this package.
const admin = "redistest"

func (s *Server) configFile() string { return filepath.Join(s.data, "redis.conf") }

func (s *Server) socket() string { return filepath.Join(s.dir.Path(), "socket") }

// configure writes the configuration of the server. The server itself, and Sentinels, may change
// the file later.
func (s *Server) configure() error {
	lines := []string{
		"bind 127.0.0.1",
		"unixsocket " + s.socket(),
		"unixsocketperm 700",
		"dir " + s.data,
		// The server opens the file for each line that it logs.
		"logfile /dev/stderr",
	}
	lines = append(lines, s.ports()...)
	if s.opts.TLS {
		secure, err := s.secure()
		if err != nil {
			return fmt.Errorf("redistest: certificates: %w", err)
		}
		lines = append(lines, secure...)
	}
	if s.role.kind != sentinel {
		lines = append(lines, s.store()...)
	}
	lines = append(lines, s.role.lines...)
	if s.role.kind != sentinel {
		lines = append(lines, s.opts.Config...)
	}
	text := strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(s.configFile(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("redistest: configuration: %w", err)
	}
	return nil
}

// ports are the lines about where the server listens, and where others find it.
func (s *Server) ports() []string {
	own, front := portOf(s.listen), portOf(s.Addr())
	lines := []string{"port " + own}
	if s.opts.TLS {
		lines = []string{"port 0", "tls-port " + own}
	}
	if s.front != nil {
		lines = append(lines, "replica-announce-ip 127.0.0.1", "replica-announce-port "+front)
	}
	if s.role.kind == node {
		announced := "cluster-announce-port "
		if s.opts.TLS {
			announced = "cluster-announce-tls-port "
		}
		bus := portOf(s.bus)
		lines = append(lines, "cluster-enabled yes", "cluster-announce-ip 127.0.0.1", announced+front, "cluster-port "+bus, "cluster-announce-bus-port "+bus)
		if s.opts.TLS {
			lines = append(lines, "tls-cluster yes")
		}
	}
	return lines
}

// store are the lines about users, data and replication.
func (s *Server) store() []string {
	lines := []string{
		fmt.Sprintf("user %s on >%s ~* &* +@all", admin, s.role.secret),
		"masteruser " + admin,
		"masterauth " + s.role.secret,
		"repl-diskless-sync-delay 0", // the default is 5 s
		"repl-ping-replica-period 1", // 10 s
		"repl-backlog-ttl 0",         // 1 h, after which a master has another replication id
	}
	switch s.opts.Persistence {
	case Snapshots:
	case Nothing:
		lines = append(lines, `save ""`)
	case Log:
		lines = append(lines, `save ""`, "appendonly yes")
	}
	if s.opts.RESP2 {
		lines = append(lines, `rename-command HELLO ""`)
	}
	return lines
}

// secure makes the certificates of a server with Options.TLS, and returns its lines about them.
func (s *Server) secure() (lines []string, err error) {
	s.ca = s.role.ca
	if s.ca == nil {
		s.ca, err = testnet.NewCA(s.dir.Path())
		if err != nil {
			return nil, err
		}
	}
	ca := s.ca
	if s.opts.ServerCA != nil {
		ca = s.opts.ServerCA(ca)
	}
	cert, key, err := ca.Issue("server-" + portOf(s.listen))
	if err != nil {
		return nil, err
	}
	return []string{
		"tls-ca-cert-file " + s.ca.File(),
		"tls-cert-file " + cert,
		"tls-key-file " + key,
		"tls-auth-clients optional",
		"tls-replication yes",
	}, nil
}

// CA returns the authority that has signed the server's certificate, and issues those of clients;
// nil without Options.TLS.
func (s *Server) CA() *testnet.CA { return s.ca }

// portOf returns the port of "host:port".
func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // all are ours
	return port
}

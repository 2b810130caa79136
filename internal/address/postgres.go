package address

import (
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ListenOff is the value of parameter listen for programs that poll.
const ListenOff = "off"

// The values of parameter sslmode, which mean what they mean to PostgreSQL's own tools. Its
// "allow" and "prefer" are no values: with them a machine in between can switch TLS off.
const (
	SSLDisable    = "disable"
	SSLRequire    = "require"
	SSLVerifyCA   = "verify-ca"
	SSLVerifyFull = "verify-full"
)

// SSL returns the sslmode of PostgreSQL: what the URL has, or else SSLVerifyFull, or SSLDisable
// where the servers are on this machine and nothing configures TLS.
func (a *Address) SSL() string {
	switch {
	case a.SSLMode != "":
		return a.SSLMode
	case a.Files().Any(), slices.ContainsFunc(a.Hosts, remote):
		return SSLVerifyFull
	}
	return SSLDisable
}

// remote reports whether a server may be on another machine.
func remote(server string) bool {
	if IsSocket(server) {
		return false
	}
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return true
	}
	ip := net.ParseIP(host)
	return !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback())
}

// IsSocket reports whether a server of Address.Hosts is the path of a socket.
func IsSocket(server string) bool { return strings.HasPrefix(server, "/") }

// socketName is what PostgreSQL calls a socket, before its port.
const socketName = ".s.PGSQL."

// HostPort returns the parts of a server of PostgreSQL as its clients take them: of a socket, the
// folder is the host.
func HostPort(server string) (host string, port uint16) {
	host, digits, _ := net.SplitHostPort(server)
	if IsSocket(server) {
		host = path.Dir(server)
		digits = strings.TrimPrefix(path.Base(server), socketName)
	}
	n, _ := strconv.ParseUint(digits, 10, 16) // Parse has checked it
	return host, uint16(n)
}

// setSocket sets the folder of a socket, as PostgreSQL's own tools take it.
func setSocket(a *Address, value string) error {
	switch {
	case !strings.HasPrefix(value, "/"):
		return errors.New("want the folder of a socket, such as /var/run/postgresql: servers stand before the path")
	case len(a.Hosts) > 0:
		return errors.New("there is a server before the path: want one of the two")
	}
	a.Hosts = []string{path.Clean(value)}
	return nil
}

// setPort sets the port of a socket.
func setPort(a *Address, value string) error {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n == 0 {
		return errors.New("want a number from 1 to 65535")
	}
	a.port = strconv.FormatUint(n, 10)
	return nil
}

// setRootBesideDatabase sets a root, which is not in the path.
func setRootBesideDatabase(a *Address, value string) error {
	a.Root = value
	return CheckPath(value)
}

// setListen sets where notifications come from.
func setListen(a *Address, value string) error {
	if value == ListenOff {
		a.Listen = value
		return nil
	}
	servers, err := Servers(strings.Split(value, ","), PostgresPort)
	a.Listen = strings.Join(servers, ",")
	return err
}

func setSSLMode(a *Address, value string) error {
	if value == "allow" || value == "prefer" {
		return fmt.Errorf("%s is not safe, because a machine in between could switch TLS off: want disable, require, verify-ca or verify-full", value)
	}
	return word(func(a *Address) *string { return &a.SSLMode }, SSLDisable, SSLRequire, SSLVerifyCA, SSLVerifyFull)(a, value)
}

// libpq returns the parameters of PostgreSQL's own tools that have another name here.
func libpq() map[string]string {
	return map[string]string{
		"sslrootcert":          "want ca=",
		"sslcert":              "want cert=",
		"sslkey":               "want key=",
		"connect_timeout":      "want timeout=, with a unit",
		"application_name":     "want label=",
		"search_path":          "want schema=",
		"passfile":             "want password-file=, a file with the password alone, or the variable PGPASSFILE",
		"dbname":               "the path is the database",
		"target_session_attrs": "of several servers the primary counts",
	}
}

// checkPostgres completes the servers, and returns an error for parts that exclude each other.
func (a *Address) checkPostgres() error {
	switch {
	case len(a.Hosts) == 0:
		return errors.New("no servers: want postgres://host:" + PostgresPort + "/database, or postgres:///database?host=/var/run/postgresql for a socket")
	case a.port != "" && !IsSocket(a.Hosts[0]):
		return errors.New("parameter port is for a socket: want host:port before the path")
	case a.SSLMode == SSLDisable && a.Files().Any():
		return errors.New("sslmode=disable and files or names for TLS exclude each other")
	case IsSocket(a.Hosts[0]) && a.TLS():
		return errors.New("there is no TLS on a socket")
	}
	if IsSocket(a.Hosts[0]) {
		port := a.port
		if port == "" {
			port = PostgresPort
		}
		a.Hosts[0] = path.Join(a.Hosts[0], socketName+port)
		a.port = ""
	}
	return nil
}

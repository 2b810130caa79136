package stores

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/credential"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/session"
)

// PostgresConfig returns how Open connects to the PostgreSQL of a URL: for pgbackend.Apply, or for
// statements of a program's own. Call BeforeConnect of the Options with a copy of the configuration
// before each connection; it reads password and certificates again. opts may be nil. The error
// wraps session.ErrInvalidOptions, also for a URL of another service.
func PostgresConfig(url string, opts *Options) (*pgx.ConnConfig, *pgbackend.Options, error) {
	o, a, err := opts.parse(url)
	if err == nil && a.Service != address.Postgres {
		err = errors.New("want a URL such as postgres://host/database")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("stores: %w: %w", session.ErrInvalidOptions, err)
	}
	config, po, err := o.postgres(a)
	if err != nil {
		return nil, nil, fmt.Errorf("stores: %w: %w", session.ErrInvalidOptions, err)
	}
	return config, po, nil
}

func (o *Options) openPostgres(ctx context.Context, a *address.Address) (*session.Session, error) {
	config, po, err := o.postgres(a)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrInvalidOptions, err)
	}
	b, err := pgbackend.ConfigBackend(config, po)
	if err != nil {
		return nil, err
	}
	return pgbackend.OpenBackend(ctx, b, po)
}

// postgres returns the configuration of connections, and the options of the backend.
func (o *Options) postgres(a *address.Address) (*pgx.ConnConfig, *pgbackend.Options, error) {
	l := &login{address: a, tls: o.TLS}
	var err error
	if a.TLS() {
		l.files, err = a.Files().Open()
	}
	if err == nil && a.PasswordFile != "" {
		l.password, err = credential.OpenPassword(a.PasswordFile)
	}
	if err != nil {
		return nil, nil, err
	}
	l.log(cmp.Or(o.Session.Logger, slog.Default()))
	config, err := l.config(a.Hosts)
	if err != nil {
		return nil, nil, err
	}
	// Each of the servers gets a part of the time, so that one that does not answer leaves some to
	// the others.
	config.ConnectTimeout = min(o.Timeout, DefaultTimeout) / time.Duration(len(a.Hosts))
	po := &pgbackend.Options{
		Session: o.Session, Schema: a.Schema, Root: a.Root, Listen: a.Listen, AcceptWeaker: a.Weaker, BeforeConnect: l.complete,
	}
	if a.Listen != "" && a.Listen != address.ListenOff {
		po.Listen = l.text(strings.Split(a.Listen, ","))
	}
	return config, po, nil
}

// login is what connections to PostgreSQL are made with.
type login struct {
	address  *address.Address
	tls      *tls.Config          // of the caller; nil for that of files
	files    *credential.TLS      // nil without TLS
	password *credential.Password // nil without a file
}

// log names the logger for files that cannot be read any more.
func (l *login) log(log *slog.Logger) {
	if l.files != nil {
		l.files.Log(log)
	}
	if l.password != nil {
		l.password.Log(log)
	}
}

// config returns the configuration for some servers. What the URL leaves out comes from the
// variables and files of PostgreSQL's own tools, such as PGUSER, PGPASSWORD and ~/.pgpass.
func (l *login) config(servers []string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(l.text(servers))
	if err != nil {
		return nil, errors.New("a variable or a file of PostgreSQL is invalid, such as PGSERVICE or PGOPTIONS") // its error may quote a password
	}
	return config, nil
}

// text returns the servers, the user and the database as pgx.ParseConfig takes them. Neither TLS nor
// the password is in it: see complete.
func (l *login) text(servers []string) string {
	hosts, ports := make([]string, len(servers)), make([]string, len(servers))
	for i, s := range servers {
		host, port := address.HostPort(s)
		hosts[i], ports[i] = host, fmt.Sprint(port)
	}
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	var text strings.Builder
	for _, x := range [][2]string{
		{"host", strings.Join(hosts, ",")},
		{"port", strings.Join(ports, ",")},
		{"user", l.address.User},
		{"dbname", l.address.Database},
		{"sslmode", "disable"},
		{"sslnegotiation", "postgres"},
		{"target_session_attrs", "any"}, // pgbackend finds the primary
	} {
		if x[1] != "" {
			fmt.Fprintf(&text, "%s='%s' ", x[0], quote.Replace(x[1]))
		}
	}
	return text.String()
}

// complete is pgbackend.Options.BeforeConnect.
func (l *login) complete(_ context.Context, c *pgx.ConnConfig) error {
	c.TLSConfig = l.secure(c.Host)
	for _, f := range c.Fallbacks {
		f.TLSConfig = l.secure(f.Host)
	}
	switch {
	case l.password != nil:
		c.Password = l.password.Read()
	case l.address.Password != "":
		c.Password = l.address.Password
	default:
		now, err := l.config(l.address.Hosts) // ~/.pgpass may have changed
		if err == nil {
			c.Password = now.Password
		}
	}
	return nil
}

// secure returns the configuration of TLS for one connection to a host; nil without TLS, and on a
// socket.
func (l *login) secure(host string) *tls.Config {
	var c *tls.Config
	switch {
	case strings.HasPrefix(host, "/"):
		return nil
	case l.tls != nil:
		c = l.tls.Clone()
	case l.files != nil:
		c = l.files.Config()
	default:
		return nil
	}
	if c.ServerName == "" {
		c.ServerName = host
	}
	mode := l.address.SSL()
	switch {
	case l.tls != nil || mode == address.SSLVerifyFull:
	case mode == address.SSLVerifyCA, l.address.CAFile != "": // with a CA, "require" means that as well, as in libpq
		c.InsecureSkipVerify = true // the name only: VerifyConnection verifies the chain
		c.VerifyConnection = issued(c.RootCAs)
	default:
		c.InsecureSkipVerify = true //nolint:gosec // the user has asked for sslmode=require
	}
	return c
}

// issued verifies that a certificate is of one of the authorities (nil: the system's), for any name.
func issued(by *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		chain := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			chain.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: by, Intermediates: chain})
		return err
	}
}

package etcdbackend

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/credential"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// DialConfig describes how to reach a cluster.
type DialConfig struct {
	// Endpoints are the members' client addresses, each in a string of its own:
	// "host:port", "http://host:port" or "https://host:port", the same scheme for all, or
	// "unix://path". The default port is 2379. At least one is required; list all of
	// them, so that the loss of one costs nothing. A login or a path in one is an error:
	// etcd's client would ignore it.
	Endpoints []string

	// TLS encrypts the connection. Its ServerName has no effect: etcd's client checks
	// each server under the name in its endpoint. It is used as it is: to show another
	// certificate later it needs GetClientCertificate, and it always trusts the same
	// authorities.
	TLS *tls.Config

	// CAFile, CertFile and KeyFile can be named instead of TLS: the authorities that sign
	// the servers' certificates (if empty, the system's), and the client's certificate,
	// both or none. All are PEM. ServerName is the name in the servers' certificates; ""
	// means the host in the endpoint. Any of them turns TLS on. The files are read again for
	// each connection, so they may be replaced at any time. While one is missing or half
	// written, its last good content is used, and a warning is logged.
	CAFile, CertFile, KeyFile, ServerName string

	// Username and Password are the login, both or none. The password is never logged,
	// and no error contains it.
	Username, Password string

	// PasswordFile is a file that contains only the password, instead of Password. It is
	// read again for each login, as are the files above. When the password of the user
	// changes, etcd refuses the logins of before: until the file has the new one, no
	// session is renewed. So change both within the TTL.
	PasswordFile string

	// Timeout bounds connecting, login and the opening of the session together. 0 means
	// 5 s.
	Timeout time.Duration
}

// String returns a description of c without its password.
func (c DialConfig) String() string {
	user := ""
	if c.Username != "" {
		user = " as " + c.Username
	}
	shown := make([]string, len(c.Endpoints))
	for i, e := range c.Endpoints {
		shown[i] = address.Shown(e)
	}
	return "etcd at " + strings.Join(shown, ",") + user
}

// GoString returns the same as String.
func (c DialConfig) GoString() string { return c.String() }

// MarshalJSON returns String as JSON: package log/slog encodes its values as JSON.
func (c DialConfig) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// files returns the files for TLS. Without any, TLS is off unless DialConfig.TLS is set.
func (c DialConfig) files() credential.Files {
	return credential.Files{CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile, ServerName: c.ServerName}
}

// check returns what is wrong with c, before anything is opened.
func (c DialConfig) check() error {
	wrong := func(what string) error { return fmt.Errorf("%w: %s", session.ErrInvalidOptions, what) }
	switch {
	case c.TLS != nil && c.files().Any():
		return wrong("TLS and files for it exclude each other")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return wrong("CertFile and KeyFile go together")
	case c.Password != "" && c.PasswordFile != "":
		return wrong("Password and PasswordFile exclude each other")
	case (c.Username == "") != (c.Password == "" && c.PasswordFile == ""):
		return wrong("Username and Password, or PasswordFile, go together")
	case c.Timeout < 0:
		return wrong(fmt.Sprintf("Timeout %s is negative", c.Timeout))
	}
	return nil
}

// endpoints returns the endpoints in a form that etcd's client reads in one way only. Paths of
// sockets stay as they are. All others get a port, and the scheme of one counts for all: the
// client takes that of the first.
func (c DialConfig) endpoints() ([]string, error) {
	wrong := func(err error) error { return fmt.Errorf("%w: endpoints: %w", session.ErrInvalidOptions, err) }
	socket := func(e string) bool {
		return (strings.HasPrefix(e, "unix:") || strings.HasPrefix(e, "unixs:")) && !strings.Contains(e, ",")
	}
	if len(c.Endpoints) > 0 && !slices.ContainsFunc(c.Endpoints, func(e string) bool { return !socket(e) }) {
		return c.Endpoints, nil
	}
	all, scheme, err := address.Endpoints(c.Endpoints)
	switch {
	case err != nil:
		return nil, wrong(err)
	case scheme == "http" && (c.TLS != nil || c.files().Any()):
		// The client would connect in the clear, and not report it.
		return nil, wrong(fmt.Errorf("%q is not encrypted, but TLS is configured", "http://"+all[0]))
	}
	for i := range all {
		if scheme != "" {
			all[i] = scheme + "://" + all[i]
		}
	}
	return all, nil
}

// clientConfig returns the configuration of etcd's client. Files beat what the client does with
// its own TLS and password, because it reads those once.
func (c DialConfig) clientConfig(files secrets) clientv3.Config {
	// gRPC's own pause between attempts to connect grows to two minutes, during which a
	// cluster that is back would go unnoticed.
	dial := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: min(c.Timeout, connectTimeout),
	})}
	if files.tls != nil {
		dial = append(dial, grpc.WithTransportCredentials(handshakes{files.tls})) // it beats the client's own
	}
	password := c.Password
	if files.password != nil && c.Username != "" {
		password = files.password.Read()
	}
	return clientv3.Config{
		Endpoints:   c.Endpoints,
		TLS:         c.TLS,
		Username:    c.Username,
		Password:    password,
		DialTimeout: c.Timeout,
		Logger:      zap.NewNop(),

		// Notice dead connections. etcd refuses pings more often than every 5 s.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,

		DialOptions: dial,
	}
}

// connectTimeout is the longest that one attempt to connect may take, also where Timeout is
// long because the service may not be up yet: an attempt at an address that swallows packets
// would last as long. It is gRPC's own.
const connectTimeout = 20 * time.Second

// dialTimeout is what DialConfig.Timeout is if it is 0.
const dialTimeout = 5 * time.Second

// Dial opens a Session on a client of its own, which is closed with the Session. It
// returns an error that wraps session.ErrInvalidOptions (nothing was sent; also if a file
// cannot be used), session.ErrDenied, session.ErrRefused (as Open does) or
// session.ErrUnavailable. The last comes when ctx ends, and at the latest after
// cfg.Timeout.
func Dial(ctx context.Context, cfg DialConfig, opts *Options) (*session.Session, error) {
	o, wrongOptions := opts.checked()
	endpoints, wrongEndpoints := cfg.endpoints()
	if err := driver.JoinErrors(wrongOptions, cfg.check(), wrongEndpoints); err != nil {
		return nil, fmt.Errorf("etcdbackend: dial: %w", err)
	}
	cfg.Endpoints = endpoints
	files, err := cfg.secrets()
	if err != nil {
		return nil, fmt.Errorf("etcdbackend: dial: %w", err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	client, err := cfg.client(ctx, files)
	if err != nil {
		return nil, fmt.Errorf("etcdbackend: dial %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	b, err := newBackend(client, o)
	if err != nil {
		return nil, err
	}
	b.owned, b.files = true, files
	return open(ctx, b, &o)
}

// client makes a client. A client that logs in does so at once, and when that fails it
// returns no reason. So the servers are reached without the login first, by a client of its
// own: so the error names a certificate that is not accepted, or a port without a server.
func (c DialConfig) client(ctx context.Context, files secrets) (*clientv3.Client, error) {
	if c.Username != "" {
		anyone := c
		anyone.Username, anyone.Password = "", ""
		client, err := anyone.client(ctx, files)
		if err != nil {
			return nil, err
		}
		defer func() { _ = client.Close() }()
		r, err := rpc.New(client, driver.SystemClock())
		if err == nil {
			err = r.Reach(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	client, err := newClient(ctx, c.clientConfig(files))
	if err == nil && files.password != nil {
		client.Auth = logins{client.Auth, files.password} // before anything is sent that may log in again
	}
	return client, err
}

// newClient makes the client. The login takes a round trip, and knows no context; so it
// is waited for no longer than ctx, and the client is closed if it comes too late. It
// takes the dial timeout at most, so the goroutine ends. made has no buffer, so exactly one
// side gets the client.
func newClient(ctx context.Context, cfg clientv3.Config) (*clientv3.Client, error) {
	type result struct {
		client *clientv3.Client
		err    error
	}
	made := make(chan result)
	go func() {
		client, err := clientv3.New(cfg)
		select {
		case made <- result{client, err}:
		case <-ctx.Done():
			if err == nil {
				_ = client.Close()
			}
		}
	}()
	select {
	case r := <-made:
		if r.err != nil {
			return nil, rpc.Translate(r.err)
		}
		return r.client, nil
	case <-ctx.Done():
		return nil, rpc.Translate(context.Cause(ctx))
	}
}

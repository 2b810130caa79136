package stores

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/credential"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session"
)

// RedisConfig returns how Open connects to the Redis or Valkey of a URL: for redisbackend.Init and
// redisbackend.Examine, or for commands of a program's own. Password and certificates are read again for
// each connection. opts may be nil. The error wraps session.ErrInvalidOptions, also for a URL of another
// service.
func RedisConfig(url string, opts *Options) (rueidis.ClientOption, *redisbackend.Options, error) {
	o, a, err := opts.parse(url)
	if err == nil && a.Service != address.Redis {
		err = errors.New("want a URL such as redis://host:6379")
	}
	var client rueidis.ClientOption
	var ro *redisbackend.Options
	if err == nil {
		client, ro, err = o.redis(a)
	}
	if err != nil {
		return rueidis.ClientOption{}, nil, fmt.Errorf("stores: %w: %w", session.ErrInvalidOptions, err)
	}
	return client, ro, nil
}

func (o *Options) openRedis(ctx context.Context, a *address.Address) (*session.Session, error) {
	client, ro, err := o.redis(a)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrInvalidOptions, err)
	}
	return redisbackend.Open(ctx, client, ro)
}

// redis returns how to connect, and the options of the backend.
func (o *Options) redis(a *address.Address) (client rueidis.ClientOption, ro *redisbackend.Options, err error) {
	log := cmp.Or(o.Session.Logger, slog.Default())
	client.InitAddress, client.TLSConfig = a.Hosts, o.TLS
	if a.Database != "" {
		client.SelectDB, _ = strconv.Atoi(a.Database) // address has checked it
	}
	if o.TLS == nil && a.TLS() {
		files, err := a.Files().Open()
		if err != nil {
			return client, nil, err //nolint:wrapcheck // it names the file
		}
		files.Log(log)
		client.TLSConfig = files.Config()
		client.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return (&tls.Dialer{NetDialer: d, Config: files.Config()}).DialContext(ctx, "tcp", addr)
		}
	}
	login := rueidis.AuthCredentials{Username: a.User, Password: a.Password}
	client.Username, client.Password = login.Username, login.Password
	if a.PasswordFile != "" {
		password, err := credential.OpenPassword(a.PasswordFile)
		if err != nil {
			return client, nil, err //nolint:wrapcheck // it names the file
		}
		password.Log(log)
		login.Password = password.Read()
		client.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: a.User, Password: password.Read()}, nil
		}
	}
	if a.Master != "" {
		client.Sentinel = rueidis.SentinelOption{MasterSet: a.Master, TLSConfig: client.TLSConfig}
		if a.SentinelLogin {
			client.Sentinel.Username, client.Sentinel.Password = login.Username, login.Password
		}
	}
	s := o.Session
	if s.TTL == 0 && a.MaxTTL != 0 {
		s.TTL = min(session.DefaultTTL, a.MaxTTL)
	}
	return client, &redisbackend.Options{Session: s, Root: a.Root, MaxTTL: a.MaxTTL, Nodes: a.Nodes, AcceptWeaker: a.Weaker}, nil
}

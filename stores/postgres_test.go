package stores_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

// connecting returns the configuration of the next connection.
func connecting(t *testing.T, config *pgx.ConnConfig, o *pgbackend.Options) *pgx.ConnConfig {
	t.Helper()
	c := config.Copy()
	require.NoError(t, o.BeforeConnect(t.Context(), c))
	return c
}

// unset takes the variables of PostgreSQL's own tools away.
func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{"PGUSER", "PGPASSWORD", "PGDATABASE", "PGHOST", "PGPORT", "PGSERVICE", "PGSSLMODE"} {
		t.Setenv(name, "")
	}
	t.Setenv("PGPASSFILE", filepath.Join(t.TempDir(), "none"))
}

// authority writes the certificate of an authority.
func authority(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, public, private)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return path
}

func TestPostgresConfigHasWhatTheURLNames(t *testing.T) {
	unset(t)
	const url = `postgres://o'b\\:p'w@a:1,[::1]/it's?schema=s&root=r&listen=c:2&weaker=true&ttl=9s&timeout=3s&sslmode=require`
	config, o, err := stores.PostgresConfig(url, &stores.Options{Session: session.Options{Label: "x"}})
	require.NoError(t, err)
	c := connecting(t, config, o)

	assert.Equal(t, []any{"a", uint16(1), `o'b\\`, "p'w", "it's", 1500 * time.Millisecond}, []any{c.Host, c.Port, c.User, c.Password, c.Database, c.ConnectTimeout})
	require.Len(t, c.Fallbacks, 1)
	assert.Equal(t, []any{"::1", uint16(5432)}, []any{c.Fallbacks[0].Host, c.Fallbacks[0].Port})
	assert.Equal(t, []any{"s", "r", true, 9 * time.Second, "x"}, []any{o.Schema, o.Root, o.AcceptWeaker, o.Session.TTL, o.Session.Label})
	listen, err := pgx.ParseConfig(o.Listen)
	require.NoError(t, err)
	l := connecting(t, listen, o)
	assert.Equal(t, []any{"c", uint16(2), `o'b\\`, "p'w", "it's"}, []any{l.Host, l.Port, l.User, l.Password, l.Database})
	assert.NotNil(t, l.TLSConfig)
	assert.NotContains(t, o.Listen, "p'w")

	_, o, err = stores.PostgresConfig("postgres:///x?host=/run/pg&listen=off", nil)
	require.NoError(t, err)
	assert.Equal(t, pgbackend.ListenOff, o.Listen)

	_, _, err = stores.PostgresConfig("etcd://db", nil)
	assert.EqualError(t, err, "stores: invalid options: want a URL such as postgres://host/database")
}

func TestEachModeOfTLSVerifiesWhatItNames(t *testing.T) {
	unset(t)
	ca := authority(t)
	own := &tls.Config{MinVersion: tls.VersionTLS13}
	for _, c := range []struct {
		url, name          string
		o                  stores.Options
		tls, unnamed, none bool // unnamed: any name is accepted; none: any certificate
	}{
		{url: "postgres://db", tls: true, name: "db"},
		{url: "postgres://db?server-name=x", tls: true, name: "x"},
		{url: "postgres://localhost"},
		{url: "postgres:///x?host=/run/pg"},
		{url: "postgres://db?sslmode=disable"},
		{url: "postgres://db?sslmode=require", tls: true, name: "db", none: true},
		{url: "postgres://db?sslmode=require&ca=" + ca, tls: true, name: "db", unnamed: true},
		{url: "postgres://db?sslmode=verify-ca", tls: true, name: "db", unnamed: true},
		{url: "postgres://localhost", o: stores.Options{CAFile: ca}, tls: true, name: "localhost"},
		{url: "postgres://localhost", o: stores.Options{TLS: own}, tls: true, name: "localhost"},
		{url: "postgres:///x?host=/run/pg", o: stores.Options{TLS: own}},
	} {
		config, o, err := stores.PostgresConfig(c.url, &c.o)
		require.NoError(t, err, c.url)

		got := connecting(t, config, o).TLSConfig

		if !c.tls {
			assert.Nil(t, got, c.url)
			continue
		}
		if assert.NotNil(t, got, c.url) {
			assert.Equal(t, c.name, got.ServerName, c.url)
			assert.Equal(t, c.none || c.unnamed, got.InsecureSkipVerify, c.url)
			assert.Equal(t, c.unnamed, got.VerifyConnection != nil, c.url)
		}
	}
	_, _, err := stores.PostgresConfig("postgres://db?sslmode=disable", &stores.Options{TLS: own})
	assert.ErrorContains(t, err, "sslmode=disable, and TLS or files for it, exclude each other")
}

func TestAPasswordIsReadAgainForEachConnection(t *testing.T) {
	unset(t)
	dir := t.TempDir()
	file, own := filepath.Join(dir, "password"), filepath.Join(dir, "pgpass")
	t.Setenv("PGPASSFILE", own)
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(file, "one\n")
	write(own, "db:5432:x:u:two\n")
	config, o, err := stores.PostgresConfig("postgres://u@db/x?password-file="+file, nil)
	require.NoError(t, err)
	assert.Equal(t, "one", connecting(t, config, o).Password)
	write(file, "three")
	assert.Equal(t, "three", connecting(t, config, o).Password)
	require.NoError(t, os.Remove(file))
	assert.Equal(t, "three", connecting(t, config, o).Password, "the last good one")

	config, o, err = stores.PostgresConfig("postgres://u@db/x", nil)
	require.NoError(t, err)
	assert.Equal(t, "two", connecting(t, config, o).Password)
	write(own, "db:5432:x:u:four\n")
	assert.Equal(t, "four", connecting(t, config, o).Password)

	t.Setenv("PGUSER", "ann")
	t.Setenv("PGPASSWORD", "five")
	config, o, err = stores.PostgresConfig("postgres://db/x", nil)
	require.NoError(t, err)
	c := connecting(t, config, o)
	assert.Equal(t, []string{"ann", "five"}, []string{c.User, c.Password})
}

package address

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseReadsEveryPartOfAURL(t *testing.T) {
	for raw, want := range map[string]Address{
		"etcd://db":                     {Service: Etcd, Hosts: []string{"db:2379"}},
		"etcd://db/":                    {Service: Etcd, Hosts: []string{"db:2379"}},
		"etcd://db?ttl=5s":              {Service: Etcd, Hosts: []string{"db:2379"}, TTL: 5 * time.Second},
		"etcd://db/?ttl=5s":             {Service: Etcd, Hosts: []string{"db:2379"}, TTL: 5 * time.Second},
		"etcd://a:1,b,[::1]:3/x/y":      {Service: Etcd, Hosts: []string{"a:1", "b:2379", "[::1]:3"}, Root: "x/y"},
		"etcd://[fe80::1%25eth0]":       {Service: Etcd, Hosts: []string{"[fe80::1%eth0]:2379"}},
		"etcd://db/caf%C3%A9%2Fx%2C":    {Service: Etcd, Hosts: []string{"db:2379"}, Root: "café/x,"},
		"zk://a:0080,B/a%20b/":          {Service: ZooKeeper, Hosts: []string{"a:80", "B:2181"}, Root: "/a b"},
		"etcds://ops:p%40ss%2F@db":      {Service: Etcd, Secure: true, Hosts: []string{"db:2379"}, User: "ops", Password: "p@ss/"},
		"etcd://ops:a:b@c@db":           {Service: Etcd, Hosts: []string{"db:2379"}, User: "ops", Password: "a:b@c"},
		"etcd://db?layout=concurrency":  {Service: Etcd, Hosts: []string{"db:2379"}, Layout: "concurrency"},
		"zk://a,b/locks/prod":           {Service: ZooKeeper, Hosts: []string{"a:2181", "b:2181"}, Root: "/locks/prod"},
		"zk://a?root=/&layout=kazoo":    {Service: ZooKeeper, Hosts: []string{"a:2181"}, Root: "/", Layout: "kazoo"},
		"zks://a?proof=quorum&tick=1s":  {Service: ZooKeeper, Secure: true, Hosts: []string{"a:2181"}, Proof: "quorum", Tick: time.Second},
		"zk://u:p@a?acl=auth&label=x+y": {Service: ZooKeeper, Hosts: []string{"a:2181"}, User: "u", Password: "p", ACL: "auth", Label: "x y"},
		"mem://":                        {Service: Memory},
		"mem://?ttl=3s&margin=500ms":    {Service: Memory, TTL: 3 * time.Second, Margin: 500 * time.Millisecond},
		"etcd://u@a?password-file=/p&ca=c&cert=d&key=e&server-name=f&timeout=1s": {
			Service: Etcd, Hosts: []string{"a:2379"}, User: "u", PasswordFile: "/p",
			CAFile: "c", CertFile: "d", KeyFile: "e", ServerName: "f", Timeout: time.Second,
		},
		"postgres://db":                        {Service: Postgres, Hosts: []string{"db:5432"}},
		"postgresql://db/":                     {Service: Postgres, Hosts: []string{"db:5432"}},
		"postgres://app:s%2F@a,b:5433/shop":    {Service: Postgres, Hosts: []string{"a:5432", "b:5433"}, User: "app", Password: "s/", Database: "shop"},
		"postgres://db/caf%C3%A9%2Fx":          {Service: Postgres, Hosts: []string{"db:5432"}, Database: "café/x"},
		"postgres:///shop?host=/run/pg/":       {Service: Postgres, Hosts: []string{"/run/pg/.s.PGSQL.5432"}, Database: "shop"},
		"postgres://app@?port=05433&host=/run": {Service: Postgres, Hosts: []string{"/run/.s.PGSQL.5433"}, User: "app"},
		"postgres://app@db/shop?root=a/b&schema=locks&listen=off&sslmode=require&weaker=true&label=x&timeout=3s&ttl=9s&margin=1s": {
			Service: Postgres, Hosts: []string{"db:5432"}, User: "app", Database: "shop", Root: "a/b", Schema: "locks", Listen: "off",
			SSLMode: SSLRequire, Weaker: true, Label: "x", Timeout: 3 * time.Second, TTL: 9 * time.Second, Margin: time.Second,
		},
		"postgres://u@db?listen=a%2Cb:5433&password-file=/p&ca=c&cert=d&key=e&server-name=f&weaker=false": {
			Service: Postgres, Hosts: []string{"db:5432"}, User: "u", Listen: "a:5432,b:5433", PasswordFile: "/p",
			CAFile: "c", CertFile: "d", KeyFile: "e", ServerName: "f",
		},
		"redis://db":                 {Service: Redis, Hosts: []string{"db:6379"}},
		"rediss://db/0":              {Service: Redis, Secure: true, Hosts: []string{"db:6379"}},
		"valkey://a,b:1/3":           {Service: Redis, Hosts: []string{"a:6379", "b:1"}, Database: "3"},
		"valkeys://:s%2F@db/":        {Service: Redis, Secure: true, Hosts: []string{"db:6379"}, Password: "s/"},
		"redis://db?password-file=x": {Service: Redis, Hosts: []string{"db:6379"}, PasswordFile: "x"},
		"redis://u@a,b:1?master=m&sentinel-login=true&password-file=/p&nodes=3&max-ttl=30s&ttl=20s&weaker=true&root=a/b": {
			Service: Redis, Hosts: []string{"a:26379", "b:1"}, User: "u", PasswordFile: "/p", Master: "m", SentinelLogin: true,
			Nodes: 3, MaxTTL: 30 * time.Second, TTL: 20 * time.Second, Weaker: true, Root: "a/b",
		},
		"rediss://db?ca=c&cert=d&key=e&server-name=f&label=x&timeout=1s&margin=2s": {
			Service: Redis, Secure: true, Hosts: []string{"db:6379"}, CAFile: "c", CertFile: "d", KeyFile: "e", ServerName: "f",
			Label: "x", Timeout: time.Second, Margin: 2 * time.Second,
		},
	} {
		a, err := Parse(raw)

		if assert.NoError(t, err, raw) {
			assert.Equal(t, want, *a, raw)
		}
	}
}

func TestParseErrorsNameWhatIsWrong(t *testing.T) {
	for raw, want := range map[string]string{
		"":                            "want a URL such as etcd://host:2379, zk://host:2181, postgres://host/database or redis://host:6379",
		"db:2379":                     "want a URL such as etcd://host:2379, zk://host:2181, postgres://host/database or redis://host:6379",
		"consul://db":                 `unknown scheme "consul": want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem`,
		"mems://":                     `unknown scheme "mems": want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem`,
		"ops:secret@etcd://db":        "unknown scheme: want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem",
		"etcd://":                     "no servers: want etcd://host:2379",
		"zk:///locks":                 "no servers: want zk://host:2181",
		"etcd://a,,b":                 "a server is empty",
		"etcd://a,a:2379":             `the server "a:2379" is named twice`,
		"etcd://::1":                  `server "::1": an IPv6 address must be in brackets`,
		"etcd://a b":                  `"a b" is no server, want host or host:port`,
		"etcd://a:b":                  `server "a:…": its port is no number from 1 to 65535`,
		"etcd://a:70000":              `server "a:70000": its port is no number from 1 to 65535`,
		"etcd://a:0":                  `server "a:0": its port is no number from 1 to 65535`,
		"etcd://@a":                   `there is no user before the "@"`,
		"etcd://a:2379:2379":          `"a:…" is no server, want host or host:port`,
		"etcd://[::1":                 `"[::1" is no server, want host or host:port`,
		"etcd://[db]:1":               `"[db]:1" is no server, want host or host:port`,
		"etcd://a;b":                  `"a;b" is no server, want host or host:port`,
		"etcd://a%2Cb":                `"a%2Cb" is no server, want host or host:port`,
		"etcd://a&ttl=5s":             `"a&ttl=5s" is no server, want host or host:port`,
		"zk://A,a":                    `the server "a:2181" is named twice`,
		"zk://a:80,a:080":             `the server "a:80" is named twice`,
		"zk://A/prod,B/prod":          "the path stands once, behind the last server; a comma in it is %2C",
		"zk://A/prod,B":               "the path stands once, behind the last server; a comma in it is %2C",
		"etcd://a:1/prod,b:2/":        "the path stands once, behind the last server; a comma in it is %2C",
		"etcd://a:1/prod%2Cb:2":       "the path goes on with another server: want the path alone",
		"etcd://a/x%3Fttl=5s":         "the path goes on with parameters: want the path alone",
		"zk://a/prod?label=x,b/prod":  "the parameters stand once, behind the last server and the path; a comma in them is %2C",
		"zk://a?label=x,b":            "the parameters stand once, behind the last server and the path; a comma in them is %2C",
		"zk://a,u:p@b":                "the user stands once, before the first server; a comma in a user or password is %2C",
		"zk://u:p@a,u:p@b":            "the user stands once, before the first server; a comma in a user or password is %2C",
		"zk://a/prod,u:p@b/prod":      `there is an "@" or "#" after the servers: in a user, a password or a path, "/", "?", "#" and "@" are written as %2F, %3F, %23 and %40`,
		"zk://a,zk://b":               "the scheme stands once, before the first server: want zk://host,host",
		"etcd://http://a":             "the scheme stands once, before the first server: want etcd://host,host",
		"ZK://a":                      "unknown scheme: want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem",
		"etcd+http://a":               `unknown scheme "etcd+http": want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem`,
		"https://a":                   `unknown scheme "https": want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem`,
		"unix://a":                    `unknown scheme "unix": want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem`,
		"zk://a//":                    `the path has an empty part: want no slash at its ends, and no "//"`,
		"zk://a//prod":                `the path has an empty part: want no slash at its ends, and no "//"`,
		"etcd://a/b%2F":               `the path has an empty part: want no slash at its ends, and no "//"`,
		"etcd://a/b/../c":             `the path has a part "..": want the path without it`,
		"etcd://a/prod ":              "the path has a space or a control character: write it as %20, or as another %XX",
		"etcd://a/prod\n":             "the path has a space or a control character: write it as %20, or as another %XX",
		"etcd://a/prod%20":            "the path begins or ends with a space or a control character",
		"etcd://u:%zz@a":              `user or password has a "%" without two hexadecimal digits: write it as %25`,
		"etcd://u:s/e@a":              `there is an "@" or "#" after the servers: in a user, a password or a path, "/", "?", "#" and "@" are written as %2F, %3F, %23 and %40`,
		"etcd://a#x":                  `there is an "@" or "#" after the servers: in a user, a password or a path, "/", "?", "#" and "@" are written as %2F, %3F, %23 and %40`,
		"etcd://a/%":                  `the path has a "%" without two hexadecimal digits: write it as %25`,
		"etcd://a?":                   "",
		"etcd://a?&":                  `no parameter is called "": etcd:// has ca, cert, key, label, layout, margin, password-file, server-name, timeout or ttl`,
		"etcd://a?tll=5s":             `no parameter is called "tll": etcd:// has ca, cert, key, label, layout, margin, password-file, server-name, timeout or ttl`,
		"etcd://a?tick=5s":            `etcd:// has no parameter tick, but ca, cert, key, label, layout, margin, password-file, server-name, timeout or ttl`,
		"etcd://a?password=x":         "no parameter is called password: put the user before the servers, as in etcd://user@host, and the password into a file (password-file=)",
		"etcd://a?ttl=5s&ttl=6s":      "parameter ttl is given twice",
		"etcd://a?ttl":                "parameter ttl has no value",
		"etcd://a?ttl=":               "parameter ttl has no value",
		"etcd://a?ttl=%":              `parameter ttl has a "%" without two hexadecimal digits: write it as %25`,
		"etcd://a?ttl=5":              `parameter ttl: "5" is no duration, want one such as 15s or 500ms`,
		"etcd://a?ttl=-5s":            "parameter ttl: -5s is not above zero",
		"etcd://a?layout=kazoo":       `parameter layout: there is no "kazoo", want native or concurrency`,
		"zk://a?layout=concurrency":   `parameter layout: there is no "concurrency", want curator or kazoo`,
		"zk://a/x?root=/y":            "parameter root: the path has named one already",
		"mem://a":                     "mem:// has no servers",
		"mem:///x":                    "mem:// has no path",
		"mem://u@":                    "mem:// has no users",
		"mem://?ca=x":                 "mem:// has no parameter ca, but label, margin, timeout or ttl",
		"etcd://a?password-file=x":    "parameter password-file has no user: want etcd://user@host",
		"etcd://u:p@a?password-file=": "parameter password-file has no value",
		"zk://u:p@a?password-file=x":  "there is a password, and parameter password-file: want one of them",
		"etcd://a?cert=x":             "parameters cert and key go together",

		"postgres://":                           "no servers: want postgres://host:5432/database, or postgres:///database?host=/var/run/postgresql for a socket",
		"postgres:///shop":                      "no servers: want postgres://host:5432/database, or postgres:///database?host=/var/run/postgresql for a socket",
		"postgres://db/shop/locks":              "the path has more than the name of a database: the root of the locks is a parameter, root=",
		"postgres://a/shop,b/shop":              "the path stands once, behind the last server; a comma in it is %2C",
		"postgres://a/..":                       `the path has a part "..": want the path without it`,
		"postgres://a?layout=native":            "postgres:// has no parameter layout, but ca, cert, host, key, label, listen, margin, password-file, port, root, schema, server-name, sslmode, timeout, ttl or weaker",
		"postgres://a?sslrootcert=x":            "postgres:// has no parameter sslrootcert: want ca=",
		"postgres://a?password=x":               "no parameter is called password: put the user before the servers, as in postgres://user@host, and the password into a file (password-file=)",
		"etcd://a?sslrootcert=x":                `no parameter is called "sslrootcert": etcd:// has ca, cert, key, label, layout, margin, password-file, server-name, timeout or ttl`,
		"etcd://a?sslmode=require":              "etcd:// has no parameter sslmode, but ca, cert, key, label, layout, margin, password-file, server-name, timeout or ttl",
		"postgres://a?host=b":                   "parameter host: want the folder of a socket, such as /var/run/postgresql: servers stand before the path",
		"postgres://a?host=/b":                  "parameter host: there is a server before the path: want one of the two",
		"postgres://a?port=1":                   "parameter port is for a socket: want host:port before the path",
		"postgres://?host=/b&port=0":            "parameter port: want a number from 1 to 65535",
		"postgres://a?sslmode=prefer":           "parameter sslmode: prefer is not safe, because a machine in between could switch TLS off: want disable, require, verify-ca or verify-full",
		"postgres://a?sslmode=on":               `parameter sslmode: there is no "on", want disable, require, verify-ca or verify-full`,
		"postgres://a?weaker=1":                 `parameter weaker: want true or false, not "1"`,
		"postgres://a?listen=on":                "",
		"postgres://a?listen=a%2C":              "parameter listen: a server is empty",
		"postgres://a?root=/":                   `parameter root: has an empty part: want no slash at its ends, and no "//"`,
		"postgres://a?root=a%20":                "parameter root: begins or ends with a space or a control character",
		"postgres://a?password-file=x":          "parameter password-file has no user: want postgres://user@host",
		"postgres://a?ca=x&sslmode=disable":     "sslmode=disable and files or names for TLS exclude each other",
		"postgres://?host=/a&sslmode=verify-ca": "there is no TLS on a socket",

		"redis://":                               "no servers: want redis://host:6379",
		"redis://@db":                            `there is no user before the "@"`,
		"redis://db/locks":                       "the path is the number of a database, 0 if there is none: the root of the locks is a parameter, root=",
		"redis://db/-1":                          "the path is the number of a database, 0 if there is none: the root of the locks is a parameter, root=",
		"redis://a/0,b/0":                        "the path stands once, behind the last server; a comma in it is %2C",
		"redis://a,a:6379":                       `the server "a:6379" is named twice`,
		"redis://a,a:6379?master=m":              `the server "a:6379" is named twice`,
		"redis://a,a:26379?master=m":             `the server "a:26379" is named twice`,
		"redis://a?nodes=0":                      "parameter nodes: want how many servers have the data, the master included: 1 for a server alone, 3 for a master with two replicas",
		"redis://a?max-ttl=15":                   `parameter max-ttl: "15" is no duration, want one such as 15s or 500ms`,
		"redis://a?max-ttl=9s&ttl=10s":           "ttl=10s is above max-ttl=9s: want a shorter ttl, or a greater max-ttl for all programs of the root",
		"redis://a?weaker=yes":                   `parameter weaker: want true or false, not "yes"`,
		"redis://u:p@a?sentinel-login=true":      "parameter sentinel-login is for sentinels: want master= too, the name of the master that they watch",
		"redis://a?master=m&sentinel-login=true": "parameter sentinel-login has no login: want redis://user@host and password-file=",
		"redis://a?addr=b":                       "redis:// has no parameter addr: want the other servers behind the first, joined by commas",
		"redis://a?replicas=2":                   "redis:// has no parameter replicas: want nodes=, which counts the master too",
		"redis://a?schema=x":                     "redis:// has no parameter schema, but ca, cert, key, label, margin, master, max-ttl, nodes, password-file, root, sentinel-login, server-name, timeout, ttl or weaker",
		"etcd://a?nodes=3":                       "etcd:// has no parameter nodes, but ca, cert, key, label, layout, margin, password-file, server-name, timeout or ttl",
		"redis://a?root=/":                       `parameter root: has an empty part: want no slash at its ends, and no "//"`,
	} {
		_, err := Parse(raw)

		if want == "" {
			assert.NoError(t, err, raw)
			continue
		}
		assert.EqualError(t, err, want, raw)
	}
}

func TestFilesForTLSTurnItOn(t *testing.T) {
	for raw, want := range map[string]bool{
		"etcd://a": false, "etcds://a": true, "zks://a": true, "etcd://a?ca=x": true,
		"zk://a?cert=x&key=y": true, "etcd://a?server-name=x": true, "mem://": false,
		"postgres://localhost?ca=x": true, "postgres://localhost": false, "postgres://a": true,
		"redis://a": false, "rediss://a": true, "valkeys://a": true, "redis://a?ca=x": true,
	} {
		a, err := Parse(raw)
		require.NoError(t, err)

		assert.Equal(t, want, a.TLS(), raw)
	}
}

func TestTheDefaultOfSSLModeIsVerifyFullUnlessAllServersAreOnThisMachine(t *testing.T) {
	for raw, want := range map[string]string{
		"postgres://db": SSLVerifyFull, "postgres://localhost,db": SSLVerifyFull, "postgres://10.0.0.1": SSLVerifyFull,
		"postgres://localhost": SSLDisable, "postgres://LOCALHOST,127.0.0.2,[::1]:1": SSLDisable, "postgres://?host=/run": SSLDisable,
		"postgres://localhost?ca=x": SSLVerifyFull, "postgres://localhost?sslmode=require": SSLRequire,
		"postgres://db?sslmode=disable": SSLDisable, "postgres://db?sslmode=verify-ca&ca=x": SSLVerifyCA,
	} {
		a, err := Parse(raw)
		require.NoError(t, err)

		assert.Equal(t, want, a.SSL(), raw)
	}
}

func TestASocketIsAServer(t *testing.T) {
	a, err := Parse("postgres:///shop?host=/run/pg&port=5433")
	require.NoError(t, err)
	assert.Equal(t, "PostgreSQL at /run/pg/.s.PGSQL.5433", a.String())

	host, port := HostPort(a.Hosts[0])
	assert.Equal(t, []any{"/run/pg", uint16(5433)}, []any{host, port})
	host, port = HostPort("[::1]:5432")
	assert.Equal(t, []any{"::1", uint16(5432)}, []any{host, port})
}

func TestAnAddressDoesNotShowItsPassword(t *testing.T) {
	a, err := Parse("zk://ops:hunter2@a,b/locks")
	require.NoError(t, err)

	assert.Equal(t, "ZooKeeper at a:2181, b:2181", a.String())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		assert.NotContains(t, fmt.Sprintf(verb, a), "hunter2", verb)
	}
}

// FuzzParse looks for a panic, for an address that changes when it is written as
// a URL and parsed again, and for passwords in errors.
func FuzzParse(f *testing.F) {
	f.Add("etcd://", "", "a:1,b/x?ttl=5s")
	f.Add("zks://ops:", "s/e@?#%", "@a?layout=kazoo")
	f.Add("", "hunter", "://x")
	f.Add("etcd://ops:", "hunter2", "")
	f.Add("postgres://ops:", "hunter2", "@a,b/shop?listen=c:1%2Cd&sslmode=require&schema=x&root=y")
	f.Add("rediss://:", "hunter2", "@a,b/3?master=m&nodes=3&max-ttl=9s&sentinel-login=true")
	f.Add("postgresql:///", "shop", "?host=/run&port=5433&weaker=true")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		// The mark occurs in no text of this package.
		mark := "zQ" + hex.EncodeToString([]byte(secret)) + "zQ"
		_, _ = Parse(before + secret + after)
		if strings.Contains(before+after, "zQ") {
			return
		}
		for _, password := range []string{mark + secret, secret + mark, url.PathEscape(secret) + mark} {
			for _, scheme := range []string{"etcd", "postgres", "redis"} {
				_, err := Parse(scheme + "://ops:" + password + "@" + after)
				if err != nil {
					require.NotContains(t, err.Error(), mark)
				}
			}
		}
		if _, err := Parse("etcd://ops:" + mark); err != nil { // "@host" is missing
			require.NotContains(t, err.Error(), mark)
		}
		a, err := Parse(before + after)
		if err != nil {
			return
		}
		require.NotEmpty(t, a.String())
		again, err := Parse(canonical(a))
		require.NoError(t, err, canonical(a))
		require.Equal(t, a, again)
	})
}

// canonical returns a as a URL.
func canonical(a *Address) string {
	s := a.Service
	if a.Secure {
		s += "s"
	}
	s += "://"
	if a.User != "" || a.Password != "" {
		s += strings.ReplaceAll(url.PathEscape(a.User), ":", "%3A")
		if a.Password != "" {
			s += ":" + strings.ReplaceAll(url.PathEscape(a.Password), "@", "%40")
		}
		s += "@"
	}
	q := url.Values{}
	if len(a.Hosts) > 0 && IsSocket(a.Hosts[0]) {
		host, port := HostPort(a.Hosts[0])
		q.Set("host", host)
		q.Set("port", fmt.Sprint(port))
	} else {
		s += strings.ReplaceAll(strings.Join(a.Hosts, ","), "%", "%25")
	}
	path := a.Database
	switch root := a.Root; {
	case a.Service == Postgres || a.Service == ZooKeeper || a.Service == Redis:
		if root != "" {
			q.Set("root", root)
		}
	default:
		path = root
	}
	if path != "" {
		s += "/" + strings.ReplaceAll(url.PathEscape(path), "@", "%40")
	}
	if a.Weaker {
		q.Set("weaker", "true")
	}
	if a.SentinelLogin {
		q.Set("sentinel-login", "true")
	}
	if a.Nodes != 0 {
		q.Set("nodes", fmt.Sprint(a.Nodes))
	}
	for name, d := range map[string]time.Duration{"ttl": a.TTL, "margin": a.Margin, "timeout": a.Timeout, "tick": a.Tick, "max-ttl": a.MaxTTL} {
		if d != 0 {
			q.Set(name, d.String())
		}
	}
	for name, v := range map[string]string{
		"label": a.Label, "layout": a.Layout, "proof": a.Proof, "acl": a.ACL, "password-file": a.PasswordFile,
		"ca": a.CAFile, "cert": a.CertFile, "key": a.KeyFile, "server-name": a.ServerName,
		"schema": a.Schema, "listen": a.Listen, "sslmode": a.SSLMode, "master": a.Master,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return s + "?" + q.Encode()
}

package address

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServersGetTheirPorts(t *testing.T) {
	got, err := Servers([]string{"zk1", "zk-2.a_b:2182", "127.0.0.1", "[::1]", "[::1]:99", "[fe80::1%25eth0]"}, "7")
	require.NoError(t, err)
	assert.Equal(t, []string{"zk1:7", "zk-2.a_b:2182", "127.0.0.1:7", "[::1]:7", "[::1]:99", "[fe80::1%eth0]:7"}, got)
}

func TestWhatIsNotOneServerIsRefused(t *testing.T) {
	const more = ` is more than one server, want each in a string of its own`
	for server, want := range map[string]string{
		"":                "a server is empty",
		":1":              "a server is empty",
		"[]":              "a server is empty",
		"a:1,b:1":         `"a:…"` + more,
		"a,b":             `"a,b"` + more,
		"a/prod":          `"a/prod" has a path behind the server: it belongs into Options.Root, and in a URL behind the last server`,
		"a:1/prod,b:1":    `"a:…" has a path behind the server: it belongs into Options.Root, and in a URL behind the last server`,
		"zk://a":          `"zk://a" is a URL, want host or host:port`,
		"ops:secret@b":    `"…@b" has a login in front of the server: user and password have places of their own`,
		"://ops:secret@b": `"…@b" is a URL, want host or host:port`,
		" a:1":            `" a:1" is no server, want host or host:port`,
		"a:1\n":           `server "a:…": its port is no number from 1 to 65535`,
		"a b":             `"a b" is no server, want host or host:port`,
		"a?ttl=5s":        `"a?ttl=5s" is no server, want host or host:port`,
		"a;b":             `"a;b" is no server, want host or host:port`,
		"a:b:c":           `"a:…" is no server, want host or host:port`,
		"dé":              `"dé" is no server, want host or host:port`,
		"::1":             `server "::1": an IPv6 address must be in brackets`,
		"::1:2181":        `server "::1:2181": an IPv6 address must be in brackets`,
		"[::1]x":          `"[:…" is no server, want host or host:port`,
		"a:":              `server "a:": its port is no number from 1 to 65535`,
		"a:0":             `server "a:0": its port is no number from 1 to 65535`,
		"a:-1":            `server "a:…": its port is no number from 1 to 65535`,
		"a:65536":         `server "a:65536": its port is no number from 1 to 65535`,
	} {
		_, err := Servers([]string{"other", server}, "7")

		assert.EqualError(t, err, want, server)
	}
	_, err := Servers([]string{"db", "DB:7"}, "7")
	assert.EqualError(t, err, `the server "DB:7" is named twice`)
}

func TestEndpointsHaveOneScheme(t *testing.T) {
	for all, want := range map[string]string{
		"a b:1":              "a:2379 b:1",
		"http://a:1/ b":      "http a:1 b:2379",
		"a:1 https://b":      "https a:1 b:2379",
		"https://[::1]:1":    "https [::1]:1",
		"http://a https://b": "servers with http and with https: want one of the two",
		"etcd://a":           "unknown scheme: want http or https",
		"http://a/prod":      `"a/prod" has a path behind the server: it belongs into Options.Root, and in a URL behind the last server`,
		"http://u:p@a":       `"…@a" has a login in front of the server: user and password have places of their own`,
		"http://a?x=y":       `"a?x=y" is no server, want host or host:port`,
		"http://a,http://b":  `"a,http:…" is a URL, want host or host:port`,
		"a//":                `"a/" has a path behind the server: it belongs into Options.Root, and in a URL behind the last server`,
		"http:// a":          "a server is empty",
	} {
		hosts, scheme, err := Endpoints(strings.Split(all, " "))

		got := strings.TrimSpace(scheme + " " + strings.Join(hosts, " "))
		if err != nil {
			got = err.Error()
		}
		assert.Equal(t, want, got, all)
	}
}

func TestARootIsOnePath(t *testing.T) {
	const empty = `has an empty part: want no slash at its ends, and no "//"`
	const server = "goes on with another server: want the path alone"
	for root, want := range map[string]string{
		"prod": "", "prod/locks": "", "a,b": "", "a, b/c": "", "a=b": "", "what?": "", "a:1": "", "...": "",
		"prod,b:2181/prod": server, "prod,b:2181": server, "prod,b:1,c": server, "x/prod,[::1]:1/x": server,
		"prod?label=x": "goes on with parameters: want the path alone",
		"zk://a/prod":  "is a URL: want the path alone",
		"":             empty, "/prod": empty, "prod/": empty, "a//b": empty,
		"a/./b": `has a part ".": want the path without it`, "..": `has a part "..": want the path without it`,
		"prod\n": "begins or ends with a space or a control character", " prod": "begins or ends with a space or a control character",
	} {
		err := CheckPath(root)

		if want == "" {
			assert.NoError(t, err, root)
			continue
		}
		assert.EqualError(t, err, want, root)
	}
}

// FuzzParseReadsAsAPersonDoes holds that a URL is refused, or read as the naive reader does.
func FuzzParseReadsAsAPersonDoes(f *testing.F) {
	for _, s := range []string{
		"A/prod,B/prod", "A/prod,B", "a:1,b,[::1]:3/x/y?ttl=5s", "a/prod?label=x,b/prod", "u:p@a,b/x", "a,u:p@b", "u:p@a,u:p@b",
		"a:1/", "a//", "a/%2C", "a/x%2Fy", "a:01", "a%2Cb", "[fe80::1%25eth0]/x", "zk://b", "a,zk://b/x", "a /x", "a/x ", "?root=/", "[aa00::0]", "[::%]", "a/x/y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		for _, scheme := range []string{"etcd", "zk", "postgres"} {
			a, err := Parse(scheme + "://" + rest)
			if err != nil || strings.Contains(rest, "root=") || strings.Contains(rest, "host=") {
				continue
			}
			servers, path, ok := person(rest)
			require.True(t, ok, "read as %v with root %q, database %q", a.Hosts, a.Root, a.Database)
			require.Equal(t, path, strings.TrimPrefix(a.Root, map[string]string{"zk": "/"}[scheme])+a.Database)
			require.Len(t, a.Hosts, len(servers))
			for i, s := range servers {
				s = strings.ReplaceAll(s, "%25", "%") // the zone of an address
				require.Contains(t, []string{s, s + ":2379", s + ":2181", s + ":5432"}, a.Hosts[i])
			}
			require.Equal(t, a.Hosts, slices.Compact(slices.Clone(a.Hosts)))
		}
	})
}

// person reads what is behind the scheme as a person does who sees the commas first: a list of
// servers, the first perhaps with a login before it, the last with a path and parameters behind it.
// It returns false if another server has one of these: then people differ.
func person(s string) (servers []string, root string, ok bool) {
	all := strings.Split(s, ",")
	for i, one := range all {
		one, _, parameters := strings.Cut(one, "?")
		server, path, slash := strings.Cut(one, "/")
		if at := strings.LastIndex(server, "@"); at >= 0 {
			server = server[at+1:]
			if i > 0 {
				return nil, "", false
			}
		}
		if (slash || parameters) && i < len(all)-1 {
			return nil, "", false
		}
		servers = append(servers, regexp.MustCompile(`:0+([0-9]+)$`).ReplaceAllString(server, ":$1"))
		path, err := url.PathUnescape(strings.TrimSuffix(path, "/"))
		if err != nil || strings.TrimSpace(path) != path {
			return nil, "", false
		}
		root = path
	}
	return servers, root, true
}

package address

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The default ports.
const (
	EtcdPort      = "2379"
	ZooKeeperPort = "2181"
	PostgresPort  = "5432"
	RedisPort     = "6379"
	SentinelPort  = "26379"
)

// Servers returns servers, each "host" or "host:port", with their ports. Programs differ in what
// else they take for a list of servers, and a list that is read in two ways is two services: so a
// string that is more than one server is an error, and so is a server that is named twice.
func Servers(all []string, port string) ([]string, error) {
	if len(all) == 0 {
		return nil, errors.New("no servers")
	}
	hosts := make([]string, 0, len(all))
	for _, s := range all {
		full, err := server(s, port)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, full) }) {
			return nil, fmt.Errorf("the server %q is named twice", full)
		}
		hosts = append(hosts, full)
	}
	return hosts, nil
}

// Endpoints returns the servers that etcd's own clients would find in a list of endpoints, each
// "host", "host:port" or one of these behind "http://" or "https://". The scheme, "" if none has
// one, counts for all: etcd's client takes that of the first, and drops a path.
func Endpoints(all []string) (hosts []string, scheme string, err error) {
	servers := make([]string, len(all))
	for i, e := range all {
		this, rest, ok := strings.Cut(e, "://")
		switch {
		case !ok:
			this, rest = "", e
		case this != "http" && this != "https":
			return nil, "", errors.New("unknown scheme: want http or https")
		case scheme != "" && this != scheme:
			return nil, "", errors.New("servers with http and with https: want one of the two")
		}
		scheme = cmp.Or(scheme, this)
		servers[i] = strings.TrimSuffix(rest, "/")
	}
	hosts, err = Servers(servers, EtcdPort)
	return hosts, scheme, err
}

// server returns a server with its port, which may be the default.
func server(s, port string) (string, error) {
	switch {
	case s == "":
		return "", errors.New("a server is empty")
	case strings.Contains(s, "://"):
		return "", fmt.Errorf("%q is a URL, want host or host:port", Shown(s))
	case strings.Contains(s, "@"):
		return "", fmt.Errorf("%q has a login in front of the server: user and password have places of their own", Shown(s))
	case strings.Contains(s, "/"):
		return "", fmt.Errorf("%q has a path behind the server: it belongs into Options.Root, and in a URL behind the last server", Shown(s))
	case strings.Contains(s, ","):
		return "", fmt.Errorf("%q is more than one server, want each in a string of its own", Shown(s))
	}
	host, given, err := net.SplitHostPort(s)
	bracket := strings.HasPrefix(s, "[")
	if err != nil { // no port, then
		host, given = s, port
		if bracket && strings.HasSuffix(s, "]") {
			host = s[1 : len(s)-1]
		}
	}
	host = strings.ReplaceAll(host, "%25", "%") // the zone of an IPv6 address
	n, err := strconv.ParseUint(given, 10, 16)
	literal := strings.Contains(host, ":")
	switch {
	case host == "":
		return "", errors.New("a server is empty")
	case literal && !bracket && isIP(host):
		return "", fmt.Errorf("server %q: an IPv6 address must be in brackets", Shown(s))
	case literal && !isIP(host), literal != bracket, !literal && strings.ContainsFunc(host, notInHost):
		return "", fmt.Errorf("%q is no server, want host or host:port", Shown(s))
	case err != nil || n == 0:
		return "", fmt.Errorf("server %q: its port is no number from 1 to 65535", Shown(s))
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

// Shown returns a server as an error quotes it. What follows a colon may be a password, if
// the "@host" behind it is missing.
func Shown(s string) string {
	i := strings.LastIndexByte(s, '@')
	if i >= 0 {
		return "…@" + Shown(s[i+1:])
	}
	before, after, ok := strings.Cut(s, "://")
	if ok && before != "" && !strings.ContainsFunc(before, notInHost) {
		return before + "://" + Shown(after)
	}
	name, rest, colon := strings.Cut(s, ":")
	digits := strings.Trim(rest, "0123456789") == ""
	if !colon || digits || isIP(strings.Trim(s, "[]")) {
		return s
	}
	return name + ":…"
}

func isIP(host string) bool {
	addr, _, _ := strings.Cut(host, "%")
	return net.ParseIP(addr) != nil
}

// notInHost reports whether no name of a host has that character. Names are ASCII: package net
// does not encode others.
func notInHost(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
}

func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// server, port and what may follow it in a list, behind a comma.
var another = regexp.MustCompile(`,[^,/]*:[0-9]+(/|,|$)`)

// CheckPath returns what is wrong with a root, or nil. The root has no slash in front. It is one
// path: programs that have different readings of one root share no lock. The error goes behind
// the name of the root.
func CheckPath(root string) error {
	switch {
	case strings.Contains(root, "://"):
		return errors.New("is a URL: want the path alone")
	case another.MatchString(root):
		return errors.New("goes on with another server: want the path alone")
	case strings.Contains(root, "?") && strings.Contains(root[strings.Index(root, "?"):], "="):
		return errors.New("goes on with parameters: want the path alone")
	case strings.TrimFunc(root, blank) != root:
		return errors.New("begins or ends with a space or a control character")
	}
	for part := range strings.SplitSeq(root, "/") {
		switch part {
		case "":
			return errors.New(`has an empty part: want no slash at its ends, and no "//"`)
		case ".", "..":
			return fmt.Errorf("has a part %q: want the path without it", part)
		}
	}
	return nil
}

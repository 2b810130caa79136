package address

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The services, as schemes name them.
const (
	Etcd      = "etcd"
	ZooKeeper = "zk"
	Memory    = "mem"
)

// Schemes returns all schemes that Parse knows. The ones that end in s use TLS.
func Schemes() []string { return []string{"etcd", "etcds", "zk", "zks", "mem"} }

// Address is the content of a URL. A field that the URL does not set is zero;
// only the ports have defaults.
type Address struct {
	Service string   // Etcd, ZooKeeper or Memory
	Secure  bool     // the scheme asks for TLS
	Hosts   []string // host:port
	Root    string   // in the form that the backend expects

	User, Password, PasswordFile          string
	CAFile, CertFile, KeyFile, ServerName string

	TTL, Margin, Timeout, Tick time.Duration
	Label, Layout, Proof, ACL  string
}

// String returns where the service is, without anything about the client: "etcd
// at db-1:2379, db-2:2379".
func (a *Address) String() string {
	if a.Service == Memory {
		return "the service in memory"
	}
	return a.Name() + " at " + strings.Join(a.Hosts, ", ")
}

// GoString keeps the password out of %#v.
func (a *Address) GoString() string { return a.String() }

// Name returns the service's name for people.
func (a *Address) Name() string {
	if a.Service == ZooKeeper {
		return "ZooKeeper"
	}
	return a.Service
}

// TLS reports whether the connection is encrypted: because of the scheme, or of
// a file or name that makes sense only with TLS.
func (a *Address) TLS() bool {
	return a.Secure || a.CAFile != "" || a.CertFile != "" || a.KeyFile != "" || a.ServerName != ""
}

// Parse parses a URL. Its errors name what is wrong, and quote only what cannot
// be part of a password.
func Parse(raw string) (*Address, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme == "" {
		return nil, errors.New("want a URL such as etcd://host:2379 or zk://host:2181")
	}
	a := &Address{Service: strings.TrimSuffix(scheme, "s"), Secure: strings.HasSuffix(scheme, "s")}
	if !slices.Contains(Schemes(), scheme) {
		return nil, unknownScheme(scheme)
	}
	// Not url.Parse: it accepts one host only, and its errors quote the whole
	// URL.
	authority, rest, slash := cutAny(rest, "/?#")
	login, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		login, hosts = authority[:i], authority[i+1:]
		if err := a.login(login); err != nil {
			return nil, err
		}
	}
	if strings.ContainsAny(rest, "@#") {
		// A password with a slash in it ends up here, and its beginning would
		// be taken for a host.
		return nil, errors.New(`there is an "@" or "#" after the servers: in a user, a password or a path, ` +
			`"/", "?", "#" and "@" are written as %2F, %3F, %23 and %40`)
	}
	if err := a.hosts(hosts); err != nil {
		return nil, err
	}
	path, query := rest, ""
	if slash == '?' {
		path, query = "", rest
	} else if before, after, ok := strings.Cut(rest, "?"); ok {
		path, query = before, after
	}
	if err := a.path(path); err != nil {
		return nil, err
	}
	if err := a.query(query); err != nil {
		return nil, err
	}
	return a, a.check()
}

// unknownScheme quotes the scheme only if it looks like one: otherwise the text
// may be a password.
func unknownScheme(scheme string) error {
	word := len(scheme) <= 16 && !strings.ContainsFunc(scheme, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' && r != '-'
	})
	if !word {
		return fmt.Errorf("unknown scheme: want %s", orList(Schemes()))
	}
	return fmt.Errorf("unknown scheme %q: want %s", scheme, orList(Schemes()))
}

// cutAny cuts s at the first of some characters, and returns that character.
func cutAny(s, chars string) (before, after string, at byte) {
	i := strings.IndexAny(s, chars)
	if i < 0 {
		return s, "", 0
	}
	if s[i] == '#' {
		return s[:i], s[i:], '#' // for the caller to refuse
	}
	return s[:i], s[i+1:], s[i]
}

// login parses the part before the @.
func (a *Address) login(s string) error {
	user, password, _ := strings.Cut(s, ":")
	var err1, err2 error
	a.User, err1 = url.PathUnescape(user)
	a.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New(`user or password has a "%" without two hexadecimal digits: write it as %25`)
	}
	if a.User == "" {
		return errors.New(`there is no user before the "@"`)
	}
	return nil
}

// hosts parses the servers.
func (a *Address) hosts(s string) error {
	if a.Service == Memory {
		if s != "" {
			return errors.New("mem:// has no servers")
		}
		return nil
	}
	port := "2379"
	if a.Service == ZooKeeper {
		port = "2181"
	}
	if s == "" {
		return fmt.Errorf("no servers: want %s://host:%s", a.Service, port)
	}
	for h := range strings.SplitSeq(s, ",") {
		full, err := server(h, port)
		if err != nil {
			return err
		}
		if slices.Contains(a.Hosts, full) {
			return fmt.Errorf("the server %q is named twice", full)
		}
		a.Hosts = append(a.Hosts, full)
	}
	return nil
}

// server returns a server with its port, which may be the default.
func server(s, port string) (string, error) {
	host, given, err := net.SplitHostPort(s)
	if err != nil { // no port, then
		host, given = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), port
	}
	host = strings.ReplaceAll(host, "%25", "%") // the zone of an IPv6 address
	n, err := strconv.ParseUint(given, 10, 16)
	literal := strings.Contains(host, ":")
	switch {
	case host == "":
		return "", errors.New("a server is empty")
	case literal && !strings.HasPrefix(s, "["):
		return "", fmt.Errorf("server %q: an IPv6 address must be in brackets", shown(s))
	case literal && !isIP(host), strings.ContainsFunc(host, notInHost):
		return "", fmt.Errorf("%q is no server, want host or host:port", shown(s))
	case err != nil || n == 0:
		return "", fmt.Errorf("server %q: its port is no number from 1 to 65535", shown(s))
	}
	return net.JoinHostPort(host, given), nil
}

// shown returns a server as an error quotes it. What follows a colon may be a password, if
// the "@host" behind it is missing.
func shown(s string) string {
	name, rest, colon := strings.Cut(s, ":")
	if digits := strings.Trim(rest, "0123456789") == ""; !colon || digits || isIP(strings.Trim(s, "[]")) {
		return s
	}
	return name + ":…"
}

func isIP(host string) bool {
	addr, _, _ := strings.Cut(host, "%")
	return net.ParseIP(addr) != nil
}

func notInHost(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`"'<>[]\^{|}`, r) }

// path parses the root. A single slash means no root: people type it out of
// habit.
func (a *Address) path(s string) error {
	root, err := url.PathUnescape(strings.TrimSuffix(s, "/"))
	switch {
	case err != nil:
		return errors.New(`the path has a "%" without two hexadecimal digits: write it as %25`)
	case root == "":
		return nil
	case a.Service == Memory:
		return errors.New("mem:// has no path")
	case a.Service == ZooKeeper:
		root = "/" + root
	}
	a.Root = root
	return nil
}

func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

package address

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/credential"
)

// The services, as schemes name them.
const (
	Etcd      = "etcd"
	ZooKeeper = "zk"
	Postgres  = "postgres"
	Redis     = "redis" // and Valkey
	Memory    = "mem"
)

// scheme is what a URL can begin with.
type scheme struct {
	name, service string
	secure        bool // it asks for TLS
}

func schemes() []scheme {
	return []scheme{
		{"etcd", Etcd, false},
		{"etcds", Etcd, true},
		{"zk", ZooKeeper, false},
		{"zks", ZooKeeper, true},
		{"postgres", Postgres, false}, // TLS is by sslmode, as PostgreSQL's own tools have it
		{"postgresql", Postgres, false},
		{"redis", Redis, false},
		{"rediss", Redis, true},
		{"valkey", Redis, false},
		{"valkeys", Redis, true},
		{"mem", Memory, false},
	}
}

// Schemes returns all schemes that Parse knows.
func Schemes() []string {
	var names []string
	for _, s := range schemes() {
		names = append(names, s.name)
	}
	return names
}

// Example is how a URL can look, for errors and help.
const Example = "etcd://host:2379, zk://host:2181, postgres://host/database or redis://host:6379"

// Address is the content of a URL. A field that the URL does not set is zero;
// only the ports have defaults.
type Address struct {
	Service string   // Etcd, ZooKeeper, Postgres, Redis or Memory
	Secure  bool     // the scheme asks for TLS
	Hosts   []string // host:port; of PostgreSQL also the path of one socket; with Master those of sentinels
	Root    string   // in the form that the backend expects

	User, Password, PasswordFile          string
	CAFile, CertFile, KeyFile, ServerName string

	TTL, Margin, Timeout, Tick time.Duration
	Label, Layout, Proof, ACL  string

	Database, Schema string // of PostgreSQL; the database of Redis is a number, "" for 0
	Listen           string // ListenOff, or servers of the form host:port, joined by commas
	SSLMode          string // as it was given: see SSL
	Weaker           bool   // AcceptWeaker of pgbackend.Options or redisbackend.Options

	Nodes         int           // of Redis, as in redisbackend.Options; 0 for its default
	MaxTTL        time.Duration // likewise
	Master        string        // of Redis: the name by which sentinels know the master
	SentinelLogin bool          // the login is that of the sentinels too

	port    string // of a socket, until Hosts has it
	servers string // of Redis, until it is known what they are
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
	switch a.Service {
	case ZooKeeper:
		return "ZooKeeper"
	case Postgres:
		return "PostgreSQL"
	case Redis:
		return "Redis"
	}
	return a.Service
}

// Files returns the files and the name for TLS.
func (a *Address) Files() credential.Files {
	return credential.Files{CA: a.CAFile, Cert: a.CertFile, Key: a.KeyFile, ServerName: a.ServerName}
}

// TLSConfig returns the TLS configuration for one connection, or nil without TLS. It reads the
// files now.
func (a *Address) TLSConfig() (*tls.Config, error) {
	if !a.TLS() {
		return nil, nil
	}
	t, err := a.Files().Open()
	if err != nil {
		return nil, err
	}
	return t.Config(), nil
}

// TLS reports whether the connection is encrypted: because of the scheme, of sslmode, or of
// a file or name that makes sense only with TLS.
func (a *Address) TLS() bool {
	if a.Service == Postgres {
		return a.SSL() != SSLDisable
	}
	return a.Secure || a.Files().Any()
}

// Parse parses a URL. Its errors name what is wrong, and quote only what cannot
// be part of a password.
func Parse(raw string) (*Address, error) {
	name, rest, ok := strings.Cut(raw, "://")
	if !ok || name == "" {
		return nil, errors.New("want a URL such as " + Example)
	}
	i := slices.IndexFunc(schemes(), func(s scheme) bool { return s.name == name })
	if i < 0 {
		return nil, unknownScheme(name)
	}
	a := &Address{Service: schemes()[i].service, Secure: schemes()[i].secure}
	// Not url.Parse: it accepts one host only, and its errors quote the whole
	// URL.
	authority, rest, slash := cutAny(rest, "/?#")
	login, hosts := "", authority
	i = strings.LastIndexByte(authority, '@')
	if i >= 0 {
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
	if slash == '/' && strings.HasPrefix(rest, "/") && strings.HasSuffix(hosts, ":") {
		return nil, fmt.Errorf("the scheme stands once, before the first server: want %s://host,host", name)
	}
	if err := a.hosts(hosts); err != nil {
		return nil, err
	}
	path, query := "", rest
	if slash != '?' {
		path, query, _ = strings.Cut(rest, "?")
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

// login parses the part before the @. A comma in it may separate servers, as in
// "a:1,user:password@b".
func (a *Address) login(s string) error {
	if strings.Contains(s, ",") {
		return errors.New("the user stands once, before the first server; a comma in a user or password is %2C")
	}
	user, password, _ := strings.Cut(s, ":")
	var err1, err2 error
	a.User, err1 = url.PathUnescape(user)
	a.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New(`user or password has a "%" without two hexadecimal digits: write it as %25`)
	}
	if a.User == "" && (a.Service != Redis || a.Password == "") { // whose default user needs no name
		return errors.New(`there is no user before the "@"`)
	}
	return nil
}

// hosts parses the servers.
func (a *Address) hosts(s string) (err error) {
	port := EtcdPort
	switch a.Service {
	case Memory:
		if s != "" {
			return errors.New("mem:// has no servers")
		}
		return nil
	case ZooKeeper:
		port = ZooKeeperPort
	case Postgres:
		port = PostgresPort
		if s == "" {
			return nil // a parameter may have the folder of a socket
		}
	case Redis:
		port, a.servers = RedisPort, s
	}
	if s == "" {
		return fmt.Errorf("no servers: want %s://host:%s", a.Service, port)
	}
	a.Hosts, err = Servers(strings.Split(s, ","), port)
	return err
}

// path parses the root, or the database of PostgreSQL. A single slash means none: people type it
// out of habit.
func (a *Address) path(s string) error {
	root, err := url.PathUnescape(strings.TrimSuffix(s, "/"))
	switch {
	case s == "":
		return nil
	case strings.Contains(s, ","):
		return errors.New("the path stands once, behind the last server; a comma in it is %2C")
	case strings.ContainsFunc(s, blank):
		return errors.New("the path has a space or a control character: write it as %20, or as another %XX")
	case err != nil:
		return errors.New(`the path has a "%" without two hexadecimal digits: write it as %25`)
	case a.Service == Memory:
		return errors.New("mem:// has no path")
	case a.Service == Postgres && strings.Contains(strings.TrimSuffix(s, "/"), "/"):
		return errors.New("the path has more than the name of a database: the root of the locks is a parameter, root=")
	case (a.Service == Postgres || a.Service == Redis) && root == "":
		return nil // the database that has the name of the user, or number 0
	case a.Service == Redis:
		return a.setDatabase(root)
	}
	if err := CheckPath(root); err != nil {
		return fmt.Errorf("the path %w", err) // unquoted: without the servers it may be a password
	}
	switch a.Service {
	case ZooKeeper:
		a.Root = "/" + root
	case Postgres:
		a.Database = root
	default:
		a.Root = root
	}
	return nil
}

func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

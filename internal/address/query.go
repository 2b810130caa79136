package address

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// parameter is a parameter that a URL may have.
type parameter struct {
	name     string
	services string // the services that have it, "" for all
	set      func(a *Address, value string) error
}

func parameters() []parameter {
	const servers = Etcd + " " + ZooKeeper + " " + Postgres + " " + Redis
	return append(redisParameters(), []parameter{
		{"ttl", "", duration(func(a *Address) *time.Duration { return &a.TTL })},
		{"margin", "", duration(func(a *Address) *time.Duration { return &a.Margin })},
		{"label", "", text(func(a *Address) *string { return &a.Label })},
		{"timeout", "", duration(func(a *Address) *time.Duration { return &a.Timeout })},
		{"layout", Etcd, word(func(a *Address) *string { return &a.Layout }, "native", "concurrency")},
		{"layout", ZooKeeper, word(func(a *Address) *string { return &a.Layout }, "curator", "kazoo")},
		{"root", ZooKeeper, setRoot},
		{"root", Postgres, setRootBesideDatabase},
		{"schema", Postgres, text(func(a *Address) *string { return &a.Schema })},
		{"host", Postgres, setSocket},
		{"port", Postgres, setPort},
		{"listen", Postgres, setListen},
		{"sslmode", Postgres, setSSLMode},
		{"weaker", Postgres, boolean(func(a *Address) *bool { return &a.Weaker })},
		{"proof", ZooKeeper, word(func(a *Address) *string { return &a.Proof }, "auto", "quorum")},
		{"tick", ZooKeeper, duration(func(a *Address) *time.Duration { return &a.Tick })},
		{"acl", ZooKeeper, word(func(a *Address) *string { return &a.ACL }, "world", "auth")},
		{"password-file", servers, text(func(a *Address) *string { return &a.PasswordFile })},
		{"ca", servers, text(func(a *Address) *string { return &a.CAFile })},
		{"cert", servers, text(func(a *Address) *string { return &a.CertFile })},
		{"key", servers, text(func(a *Address) *string { return &a.KeyFile })},
		{"server-name", servers, text(func(a *Address) *string { return &a.ServerName })},
	}...)
}

// Parameters returns the names of the parameters of a service, sorted.
func Parameters(service string) []string {
	var names []string
	for _, p := range parameters() {
		if p.of(service) {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return names
}

func (p parameter) of(service string) bool {
	return p.services == "" || slices.Contains(strings.Fields(p.services), service)
}

// query parses the parameters. Not url.ParseQuery: it accepts a parameter
// twice.
func (a *Address) query(s string) error {
	if s == "" {
		return nil
	}
	if strings.Contains(s, ",") { // perhaps before another server
		return errors.New("the parameters stand once, behind the last server and the path; a comma in them is %2C")
	}
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(s, "&") {
		name, value, given := strings.Cut(pair, "=")
		if strings.ContainsFunc(name, notInName) {
			return errors.New("a parameter has no name: want name=value, joined by &")
		}
		i := slices.IndexFunc(parameters(), func(p parameter) bool { return p.name == name && p.of(a.Service) })
		if i < 0 {
			return a.unknown(name)
		}
		if seen[name] {
			return fmt.Errorf("parameter %s is given twice", name)
		}
		seen[name] = true
		value, err := url.QueryUnescape(value)
		switch {
		case err != nil:
			return fmt.Errorf(`parameter %s has a "%%" without two hexadecimal digits: write it as %%25`, name)
		case !given || value == "":
			return fmt.Errorf("parameter %s has no value", name)
		}
		err = parameters()[i].set(a, value)
		if err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return nil
}

// unknown returns an error that names the known parameters. Users often try to give a
// password as a parameter, so that error names the right place for it.
func (a *Address) unknown(name string) error {
	if slices.Contains([]string{"user", "username", "password", "auth"}, name) {
		return fmt.Errorf("no parameter is called %s: put the user before the servers, as in %s://user@host, and the password into a file (password-file=)",
			name, a.Service)
	}
	if known, ok := libpq()[name]; ok && a.Service == Postgres {
		return fmt.Errorf("postgres:// has no parameter %s: %s", name, known)
	}
	if known, ok := otherClients()[name]; ok && a.Service == Redis {
		return fmt.Errorf("redis:// has no parameter %s: %s", name, known)
	}
	for _, p := range parameters() {
		if p.name == name {
			return fmt.Errorf("%s:// has no parameter %s, but %s", a.Service, name, orList(Parameters(a.Service)))
		}
	}
	return fmt.Errorf("no parameter is called %q: %s:// has %s", name, a.Service, orList(Parameters(a.Service)))
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && r != '-' && r != '_' && (r < 'A' || r > 'Z')
}

func duration(field func(*Address) *time.Duration) func(*Address, string) error {
	return func(a *Address, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%q is no duration, want one such as 15s or 500ms", value)
		}
		if d <= 0 {
			return fmt.Errorf("%s is not above zero", value)
		}
		*field(a) = d
		return nil
	}
}

func text(field func(*Address) *string) func(*Address, string) error {
	return func(a *Address, value string) error {
		*field(a) = value
		return nil
	}
}

func word(field func(*Address) *string, of ...string) func(*Address, string) error {
	return func(a *Address, value string) error {
		if !slices.Contains(of, value) {
			return fmt.Errorf("there is no %q, want %s", value, orList(of))
		}
		*field(a) = value
		return nil
	}
}

func boolean(field func(*Address) *bool) func(*Address, string) error {
	return func(a *Address, value string) error {
		if value != "true" && value != "false" {
			return fmt.Errorf("want true or false, not %q", value)
		}
		*field(a) = value == "true"
		return nil
	}
}

// setRoot sets a root that the path cannot express: the whole tree.
func setRoot(a *Address, value string) error {
	if a.Root != "" {
		return errors.New("the path has named one already")
	}
	a.Root = value
	return nil
}

// check returns an error for parts that exclude each other.
func (a *Address) check() error {
	switch {
	case a.Service == Memory && a.User != "":
		return errors.New("mem:// has no users")
	case a.Password != "" && a.PasswordFile != "":
		return errors.New("there is a password, and parameter password-file: want one of them")
	case a.PasswordFile != "" && a.User == "" && a.Service != Redis: // whose default user needs no name
		return fmt.Errorf("parameter password-file has no user: want %s://user@host", a.Service)
	case (a.CertFile == "") != (a.KeyFile == ""):
		return errors.New("parameters cert and key go together")
	case a.Service == Postgres:
		return a.checkPostgres()
	case a.Service == Redis:
		return a.checkRedis()
	}
	return nil
}

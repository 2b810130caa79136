package connect

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/credential"
	"github.com/fairlock/fairlock/stores"
)

// Target is the service that a command uses, before any request is sent.
type Target struct {
	// Address is the parsed URL.
	Address *address.Address

	// Options are from flags, environment and context.
	Options stores.Options

	// From is what named the service: "--on", "FAIRLOCK_ON", a context, or
	// "ETCDCTL_ENDPOINTS".
	From string

	// Warnings are for people, a sentence each.
	Warnings []string

	url     string
	context string // the name in the config file; "" for a URL
}

// login is the user and password that one source gives. Sources are tried in order.
type login struct {
	source               string
	user, password, file string
}

// Target finds the service. Nothing is sent.
func (f *Flags) Target() (*Target, error) {
	if f.On != "" && f.Context != "" {
		return nil, usage("--on and --context exclude each other")
	}
	t := &Target{From: "--on", url: f.On}
	var c *config
	var x namedContext
	name := ""
	switch {
	case f.On != "":
	case f.Context == "" && f.Getenv(envOn) != "":
		t.From, t.url = envOn, f.Getenv(envOn)
	default:
		var err error
		c, err = f.readConfig()
		if err != nil {
			return nil, err
		}
		name = cmp.Or(f.Context, f.Getenv(envContext), c.Context)
		switch {
		case name != "":
			x, err = c.context(name)
			t.From, t.context = c.describe(name), name
		case f.Getenv(envEtcdctl) != "":
			x, err = f.etcdctl()
			t.From, c = envEtcdctl, nil
		default:
			err = usage("no service: want --on, or %s, with a URL such as %s", envOn, address.Example)
		}
		if err != nil {
			return nil, err
		}
		t.url = x.URL
	}
	var err error
	t.Address, err = address.Parse(t.url)
	if err != nil {
		return nil, usage("%s: %w", t.From, err)
	}
	t.Options = stores.Options{
		CAFile: cmp.Or(f.CA, x.CA), CertFile: cmp.Or(f.Cert, x.Cert), KeyFile: cmp.Or(f.Key, x.Key), Timeout: f.Timeout,
	}
	t.warn(c, x)
	return t, t.logIn(f.logins(t, x))
}

// logins returns the sources of the login, in order. A login in a URL has the rank of
// the source that the URL came from.
func (f *Flags) logins(t *Target, x namedContext) []login {
	url := login{source: t.From, user: t.Address.User, password: t.Address.Password, file: t.Address.PasswordFile}
	env := login{user: f.Getenv(envUser), password: f.Getenv(envPassword), file: f.Getenv(envPasswordFile), source: envPassword}
	if t.Address.Service == address.Memory {
		env = login{} // the variables are for services that have users
	}
	all := []login{{source: "--password-file", user: f.User, file: f.PasswordFile}}
	if t.From == "--on" {
		return append(all, url, env)
	}
	return append(all, env, login{source: t.From, user: x.User, password: x.Password, file: x.PasswordFile}, url)
}

// logIn sets the first user that a source names, and the first password whose source
// does not name another user.
func (t *Target) logIn(sources []login) error {
	o := &t.Options
	for _, l := range sources {
		o.Username = cmp.Or(o.Username, l.user)
	}
	for _, l := range sources {
		if l.password == "" && l.file == "" || l.user != "" && l.user != o.Username {
			continue
		}
		if o.Username == "" && t.Address.Service != address.Redis { // whose default user needs no name
			return usage("%s gives a password without a user: want --user, or %s://user@… in the URL", l.source, t.Address.Service)
		}
		o.Password = l.password
		if o.Password == "" {
			o.PasswordFile = l.file // read again for each login
			if _, err := credential.ReadPassword(l.file); err != nil {
				return usage("%w", err)
			}
		}
		return nil
	}
	if o.Username != "" && t.Address.Service != address.Postgres { // which knows users in other ways too
		return usage("there is no password for user %q: want --password-file or %s", o.Username, envPassword)
	}
	return nil
}

// Password returns the password of the user, "" without one. It reads the file each time.
func (t *Target) Password() (string, error) {
	if t.Options.PasswordFile == "" {
		return t.Options.Password, nil
	}
	return credential.ReadPassword(t.Options.PasswordFile) //nolint:wrapcheck // it names the file
}

// warn adds warnings about passwords that other users can read.
func (t *Target) warn(c *config, x namedContext) {
	switch {
	case t.From == "--on" && t.Address.Password != "":
		t.Warnings = append(t.Warnings, "others can see a password on the command line: better --password-file or "+envPassword)
	case c != nil && c.open && (t.Address.Password != "" || x.Password != ""):
		t.Warnings = append(t.Warnings, fmt.Sprintf("there is a password in %s, which others can read: chmod 600 it", c.path))
	}
}

// Words are the flags with which another command works on the same service. They contain no
// password, which that command finds in a file or in the environment.
func (f *Flags) Words(t *Target) []string {
	on := ""
	if t.From == "--on" || t.From == envOn {
		scheme, rest, _ := strings.Cut(t.url, "://")
		i := strings.LastIndexByte(rest, '@')
		if i >= 0 {
			user, _, _ := strings.Cut(rest[:i], ":")
			rest = user + rest[i:]
		}
		on = scheme + "://" + rest
	}
	var words []string
	for _, w := range [][2]string{
		{"--on", on},
		{"--config", f.Config},
		{"--context", t.context},
		{"--ca", f.CA},
		{"--cert", f.Cert},
		{"--key", f.Key},
		{"--user", f.User},
		{"--password-file", f.PasswordFile},
	} {
		if w[1] != "" {
			words = append(words, w[0], w[1])
		}
	}
	return words
}

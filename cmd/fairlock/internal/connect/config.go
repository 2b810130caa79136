package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// config is the content of the config file.
type config struct {
	// Context is the context to use if none is requested.
	Context  string                  `json:"context"`
	Contexts map[string]namedContext `json:"contexts"`

	path string
	open bool // other users may read the file
}

// namedContext is a service that has a name, and the login for it.
type namedContext struct {
	// Not "on": to YAML 1.1 that is a boolean.
	URL          string `json:"url"`
	CA           string `json:"ca"`
	Cert         string `json:"cert"`
	Key          string `json:"key"`
	User         string `json:"user"`
	Password     string `json:"password"`
	PasswordFile string `json:"password-file"`
}

// readConfig reads the config file. It need not exist, unless a flag or a variable
// names it.
func (f *Flags) readConfig() (*config, error) {
	path, named := f.Config, true
	if path == "" {
		path = f.Getenv(envConfig)
	}
	if path == "" {
		named = false
		dir, err := f.configDir()
		if err != nil {
			return &config{}, nil //nolint:nilerr // no file is named, so none has to exist
		}
		path = filepath.Join(dir, "fairlock", "config.yaml")
	}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return &config{path: path}, nil
	case err != nil:
		return nil, usage("read the config file: %w", err)
	}
	c := &config{path: path}
	err = yaml.UnmarshalStrict(b, c)
	if err != nil {
		return nil, usage("config file %s: %w", path, plain(err))
	}
	for name, x := range c.Contexts {
		if x.URL == "" {
			return nil, usage("config file %s: context %q has no URL: want a line such as \"url: etcd://host:2379\"", path, name)
		}
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" {
		c.open = info.Mode().Perm()&0o077 != 0
	}
	return c, nil
}

// configDir returns the folder for config files of programs. os.UserConfigDir would read
// XDG_CONFIG_HOME from the environment of the process, not from Getenv.
func (f *Flags) configDir() (string, error) {
	dir := f.Getenv("XDG_CONFIG_HOME")
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	return os.UserConfigDir()
}

// The parts of a YAML parser's errors that are safe to print.
var (
	unknownField = regexp.MustCompile(`unknown field "[a-z.-]{1,32}"`)
	lineOf       = regexp.MustCompile(`line \d+`)
	doubledKey   = regexp.MustCompile(`line \d+: key "[a-z-]+" already set`)
)

// plain returns the error of a YAML parser without what it quotes of the file: that may
// be a password.
func plain(err error) error {
	for _, known := range []*regexp.Regexp{unknownField, doubledKey} {
		s := known.FindString(err.Error())
		if s != "" {
			return errors.New(s)
		}
	}
	s := lineOf.FindString(err.Error())
	if s != "" {
		return fmt.Errorf("%s has an invalid value, or is not YAML", s)
	}
	return errors.New("it is not YAML, or has an invalid value")
}

// context returns the context of a name, with the paths of its files made
// relative to the file that names them.
func (c *config) context(name string) (namedContext, error) {
	x, ok := c.Contexts[name]
	if !ok {
		if len(c.Contexts) == 0 {
			return x, usage("there is no context %q: no config file, or none with contexts (%s)", name, c.path)
		}
		return x, usage("there is no context %q in %s, but %s", name, c.path, strings.Join(c.names(), ", "))
	}
	for _, path := range []*string{&x.CA, &x.Cert, &x.Key, &x.PasswordFile} {
		*path = c.relative(*path)
	}
	return x, nil
}

func (c *config) relative(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(c.path), path)
}

func (c *config) names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

// Contexts returns the names in the config file, for completion. It returns none if the
// file is invalid: the command itself reports that.
func (f *Flags) Contexts() []string {
	c, err := f.readConfig()
	if err != nil {
		return nil
	}
	return c.names()
}

// describe names a context in errors.
func (c *config) describe(name string) string { return fmt.Sprintf("context %q in %s", name, c.path) }

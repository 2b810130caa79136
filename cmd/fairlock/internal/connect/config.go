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

// config is what is in the config file.
type config struct {
	// Context is the one to use unless another is asked for.
	Context  string                  `json:"context"`
	Contexts map[string]namedContext `json:"contexts"`

	path string
	open bool // others may read it
}

// namedContext is a service under a name, and how to log in there.
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

// readConfig reads the config file. One that nobody has named need not be there.
func (f *Flags) readConfig() (*config, error) {
	path, named := f.Config, true
	if path == "" {
		path = f.Getenv(envConfig)
	}
	if path == "" {
		named = false
		dir, err := f.configDir()
		if err != nil {
			return &config{}, nil //nolint:nilerr // nobody has named a file, so there is none
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
	if err = yaml.UnmarshalStrict(b, c); err != nil {
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

// configDir is where the config files of programs are, as os.UserConfigDir says,
// which looks into the environment of the process only.
func (f *Flags) configDir() (string, error) {
	if dir := f.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	return os.UserConfigDir()
}

// What a YAML parser's errors say that can be passed on.
var (
	unknownField = regexp.MustCompile(`unknown field "[a-z.-]{1,32}"`)
	lineOf       = regexp.MustCompile(`line \d+`)
	doubledKey   = regexp.MustCompile(`line \d+: key "[a-z-]+" already set`)
)

// plain says what a YAML parser says, but for what it quotes of the file: that
// may be a password.
func plain(err error) error {
	for _, known := range []*regexp.Regexp{unknownField, doubledKey} {
		if s := known.FindString(err.Error()); s != "" {
			return errors.New(s)
		}
	}
	if s := lineOf.FindString(err.Error()); s != "" {
		return fmt.Errorf("%s is not what belongs there, or no YAML", s)
	}
	return errors.New("it is no YAML, or a value is not what belongs there")
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

// Contexts are the names in the config file; for completion, so what is wrong
// with the file is told by the command itself.
func (f *Flags) Contexts() []string {
	c, err := f.readConfig()
	if err != nil {
		return nil
	}
	return c.names()
}

// describe names a context in errors.
func (c *config) describe(name string) string { return fmt.Sprintf("context %q in %s", name, c.path) }

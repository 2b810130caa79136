// Package connect finds the service that a command works on: from flags, from
// the environment and from a file with named contexts, in that order.
package connect

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/address"
)

// The variables of the environment. There are none for the files of TLS: the URL can
// name these, and FAIRLOCK_KEY is a variable that fairlock sets for the commands that it
// runs, with the key of the lock.
const (
	envOn           = "FAIRLOCK_ON"
	envContext      = "FAIRLOCK_CONTEXT"
	envConfig       = "FAIRLOCK_CONFIG"
	envUser         = "FAIRLOCK_USER"
	envPassword     = "FAIRLOCK_PASSWORD"
	envPasswordFile = "FAIRLOCK_PASSWORD_FILE"
)

// Annotation marks commands that take Flags: their help names the topic that describes
// the flags.
const Annotation = "connects"

// Flags are the flags of all commands that use a service. In the zero value with Getenv
// set, no flag was given.
type Flags struct {
	On, Context, Config string
	CA, Cert, Key       string
	User, PasswordFile  string
	Timeout             time.Duration // 0: the one in the URL, or 5 s

	// Getenv returns a variable of the environment, and "" if it is not set.
	Getenv func(string) string
}

// Register defines the flags, and their completion, on a command and all commands below
// it.
func (f *Flags) Register(cmd *cobra.Command) {
	fs := cmd.PersistentFlags()
	fs.StringVar(&f.On, "on", "", "the service, a `URL`: etcd://host:2379")
	fs.StringVar(&f.Context, "context", "", "the service of this `NAME` in the config file")
	fs.StringVar(&f.Config, "config", "", "the config `FILE`")
	fs.StringVar(&f.CA, "ca", "", "PEM `FILE` of the CA of the servers")
	fs.StringVar(&f.Cert, "cert", "", "PEM `FILE` with the client certificate")
	fs.StringVar(&f.Key, "key", "", "PEM `FILE` with its key")
	fs.StringVar(&f.User, "user", "", "log in with this `NAME`")
	fs.StringVar(&f.PasswordFile, "password-file", "", "`FILE` with the password")
	fs.Var((*timeout)(&f.Timeout), "connect-timeout", "give up after this `DURATION` (default 5s)")
	complete := func(flag string, words func() []string, then cobra.ShellCompDirective) {
		err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return words(), then
		})
		if err != nil {
			panic(err) // the flag is not defined above
		}
	}
	complete("on", schemes, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
	complete("context", f.Contexts, cobra.ShellCompDirectiveNoFileComp)
	none := func() []string { return nil }
	complete("user", none, cobra.ShellCompDirectiveNoFileComp)
	complete("connect-timeout", none, cobra.ShellCompDirectiveNoFileComp)
}

// schemes returns how a URL can begin.
func schemes() []string {
	var all []string
	for _, s := range address.Schemes() {
		all = append(all, s+"://")
	}
	return all
}

// timeout is a duration above zero. It has a type of its own so that zero means "not
// given", and help does not show "0s".
type timeout time.Duration

// String implements pflag.Value.
func (d *timeout) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Set implements pflag.Value.
func (d *timeout) Set(s string) error {
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return errors.New("want a duration such as 5s or 500ms")
	case v <= 0:
		return errors.New("it must be above zero")
	}
	*d = timeout(v)
	return nil
}

// Type implements pflag.Value.
func (d *timeout) Type() string { return "duration" }

// usage is the error for flags, variables or config that make no sense.
func usage(format string, args ...any) error { return exit.Errorf(exit.Usage, format, args...) }

package pgtest

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

// Options are the settings of a server. Nil is the same as the zero value: one server
// that starts fast and whose data is in memory.
type Options struct {
	// Programs is the folder with PostgreSQL's programs postgres and initdb, version 15 or
	// later. If the tests run as root, the user "postgres" must be able to enter it. ""
	// means what Find returns.
	Programs string

	// Config are settings of the server, as in postgresql.conf. They override those of
	// this package: shared_buffers 16MB, max_connections 500, max_wal_size 128MB. "fsync"
	// and "synchronous_commit" are on, as PostgreSQL's own defaults are.
	Config map[string]string

	// Access are lines of pg_hba.conf. They come before the server's own lines, which
	// admit every role from 127.0.0.1 without a password. The connections of this package
	// go through the server's socket and do not need any.
	Access []string

	// TLS admits only clients that use TLS. To one that shows a certificate of Server.CA, the
	// certificate's name is the role if Access has a line for it, such as
	// "hostssl all all 127.0.0.1/32 cert".
	TLS bool

	// ServerCA, with TLS, returns the authority that issues the server's certificate, made
	// from the one that clients trust: (*testnet.CA).Expired for one. Nil means the same
	// authority.
	ServerCA func(*testnet.CA) *testnet.CA

	// Clock makes SetClock work, by the library of Debian's package faketime, or the one that
	// the environment variable FAIRLOCK_FAKETIME names. It costs some microseconds each time
	// that the server reads its clock.
	Clock bool

	// Disk keeps the data on the disk. False keeps it in memory if /dev/shm has at least 1
	// GiB free: then nothing is lost when a process is killed, and "fsync" costs nothing.
	Disk bool

	// Dir is the directory for the data, which must exist and be empty. If the tests run
	// as root, the user "postgres" must be able to enter the folders above it. Close
	// leaves the data there, a Start that fails does not. A small file system is full soon. ""
	// means a temporary directory, which Close removes.
	Dir string

	// StartTimeout is how long a start may show no progress: no line in the server's log.
	// The time in which the machine did not let this process run does not count. A start
	// may take ten times as long in all. 0 means one minute.
	StartTimeout time.Duration
}

// complete returns a copy with the defaults filled in, or what is wrong.
func (o *Options) complete() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.StartTimeout = cmp.Or(opts.StartTimeout, time.Minute)
	if opts.StartTimeout < 0 {
		return opts, fmt.Errorf("pgtest: options: negative start timeout %v", opts.StartTimeout)
	}
	opts.Config = maps.Clone(opts.Config)
	for name, value := range opts.Config {
		if !settable(name) || strings.ContainsAny(value, "\n\x00") {
			return opts, fmt.Errorf("pgtest: options: setting %q=%q, want a name and one line", name, value)
		}
	}
	for _, line := range opts.Access {
		if strings.ContainsAny(line, "\n\x00") {
			return opts, fmt.Errorf("pgtest: options: access %q, want one line", line)
		}
	}
	var err error
	if opts.Programs == "" {
		opts.Programs, err = Find()
	} else {
		opts.Programs, err = complete(opts.Programs)
	}
	if err != nil {
		return opts, err
	}
	if opts.Dir != "" {
		opts.Dir, err = testserver.EmptyDir(opts.Dir)
		if err != nil {
			return opts, fmt.Errorf("pgtest: options: data directory: %w", err)
		}
	}
	return opts, nil
}

// settable reports whether a text can be the name of a setting.
func settable(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == ""
}

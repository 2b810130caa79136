package redistest

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

// Persistence is what a server writes to its data directory.
type Persistence int

const (
	// Nothing is written: a server that ends has lost everything.
	Nothing Persistence = iota

	// Snapshots are written (RDB): at Stop, and in between as often as Redis does without a
	// configuration, such as an hour after a change. Kill loses what no snapshot has.
	Snapshots

	// Log is the append-only file. The server writes each change before it answers, so Kill
	// loses nothing.
	Log
)

// Options are the settings of a server. Nil is the same as the zero value: one server that
// starts fast and keeps nothing.
type Options struct {
	// Program is the path of redis-server or valkey-server. "" means what Find returns.
	Program string

	// Persistence is what the server writes to its data directory.
	Persistence Persistence

	// Config are further lines of redis.conf, such as "maxmemory 2mb" or "user app on >secret
	// ~* +@all". They override those of this package. The setting "aclfile" cannot be used.
	Config []string

	// RESP2 makes the server refuse the command HELLO, as servers before Redis 6 and some
	// proxies do. Clients then speak the older protocol.
	RESP2 bool

	// TLS admits only clients that use TLS; they may show a certificate of Server.CA. Replicas,
	// Sentinels and nodes of a cluster use TLS too.
	TLS bool

	// ServerCA, with TLS, returns the authority that issues the server's certificate, made
	// from the one that clients trust: (*testnet.CA).Expired for one. Nil means the same
	// authority.
	ServerCA func(*testnet.CA) *testnet.CA

	// Clock makes SetClock work. It needs a C compiler, on Linux: the one that the environment
	// variable CC names, or "cc". It costs the server a fraction of a microsecond each time that
	// it reads its clock.
	Clock bool

	// Disk keeps the data on the disk. False keeps it in memory if /dev/shm has at least 1
	// GiB free.
	Disk bool

	// Dir is the directory for the data, which must exist and be empty. Close leaves the data
	// there, a Start that fails does not. Replicas, Sentinels and clusters cannot have one. ""
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
		return opts, fmt.Errorf("redistest: options: negative start timeout %v", opts.StartTimeout)
	}
	if opts.Persistence < Nothing || opts.Persistence > Log {
		return opts, fmt.Errorf("redistest: options: persistence %d, want Nothing, Snapshots or Log", opts.Persistence)
	}
	if err := checkLines(opts.Config); err != nil {
		return opts, err
	}
	opts.Config = slices.Clone(opts.Config)
	var err error
	if opts.Program == "" {
		opts.Program, err = Find()
	} else {
		opts.Program, err = absolute(opts.Program)
	}
	if err != nil {
		return opts, err
	}
	if opts.Dir != "" {
		opts.Dir, err = testserver.EmptyDir(opts.Dir)
		if err != nil {
			return opts, fmt.Errorf("redistest: options: data directory: %w", err)
		}
	}
	return opts, nil
}

// several is complete for servers that start together.
func (o *Options) several() (Options, error) {
	if o != nil && o.Dir != "" {
		return Options{}, fmt.Errorf("redistest: options: one directory %q for several servers", o.Dir)
	}
	return o.complete()
}

func checkLines(config []string) error {
	for _, line := range config {
		if strings.TrimSpace(line) == "" || strings.ContainsAny(line, "\n\r\x00") {
			return fmt.Errorf("redistest: options: configuration %q, want one line", line)
		}
	}
	return nil
}

// absolute returns the absolute path of a program. The servers run in another working directory
// than this process.
func absolute(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", fmt.Errorf("redistest: no program %q", program)
	}
	return path, nil
}

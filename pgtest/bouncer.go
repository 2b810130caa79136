package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/testserver"
)

// BouncerOptions are the options of Server.Bouncer. Nil is the same as the zero value: a pooler
// in transaction mode.
type BouncerOptions struct {
	// Mode is when a client gives its connection to the server back: "session", "transaction"
	// or "statement". "" means "transaction".
	Mode string

	// PoolSize is the number of connections to the server for each role. 0 means 20.
	PoolSize int

	// Config are further settings, as in the section [pgbouncer] of pgbouncer.ini.
	Config map[string]string
}

// Bouncer is a PgBouncer before a server: a pooler of connections. It admits every role of the
// server without a password. Its methods are safe for concurrent use.
type Bouncer struct {
	server  *Server
	program string
	dir     *testserver.Dir
	addr    string
	close   func() error

	mu      sync.Mutex
	process *process.Process // nil before it is started
	closed  bool             // no process may be started any more
}

const bouncerVariable = "FAIRLOCK_PGBOUNCER"

// findBouncer returns the path of the program. Debian has it where only root looks.
func findBouncer() (string, error) {
	set := os.Getenv(bouncerVariable)
	for _, program := range []string{cmp.Or(set, "pgbouncer"), "/usr/sbin/pgbouncer"} {
		path, err := exec.LookPath(program)
		if err == nil {
			return filepath.Abs(path)
		}
		if set != "" {
			return "", fmt.Errorf("pgtest: %s is %q, which is no program: set it to pgbouncer or unset it", bouncerVariable, set)
		}
	}
	return "", fmt.Errorf("pgtest: no PgBouncer here: install it (Debian: apt-get install pgbouncer), or set %s to the program", bouncerVariable)
}

// Bouncer starts a PgBouncer before the server and returns when it admits clients. Close of the
// server closes it too. It finds the program in PATH, in /usr/sbin, or where the environment
// variable FAIRLOCK_PGBOUNCER points.
func (s *Server) Bouncer(ctx context.Context, opts *BouncerOptions) (*Bouncer, error) {
	var o BouncerOptions
	if opts != nil {
		o = *opts
	}
	o.Mode, o.PoolSize = cmp.Or(o.Mode, "transaction"), cmp.Or(o.PoolSize, 20)
	program, err := findBouncer()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		b := &Bouncer{server: s, program: program}
		b.close = sync.OnceValue(b.shutdown)
		err := b.begin(ctx, o)
		if err == nil {
			err = s.adopt(b)
		}
		if err == nil {
			return b, nil
		}
		err = errors.Join(err, b.Close())
		if attempt == 5 || !testserver.PortTaken(err) {
			return nil, err
		}
	}
}

// begin is one attempt at Bouncer, with a port of its own.
func (b *Bouncer) begin(ctx context.Context, opts BouncerOptions) error {
	if err := b.prepare(ctx, opts); err != nil {
		return err
	}
	return b.launch(ctx)
}

// prepare makes everything that the pooler needs before it can start.
func (b *Bouncer) prepare(ctx context.Context, opts BouncerOptions) (err error) {
	b.dir, err = testserver.MakeDir("pgtest", !b.server.opts.Disk)
	if err != nil {
		return err
	}
	if err := b.server.as.own(b.dir.Path()); err != nil {
		return fmt.Errorf("pgtest: pgbouncer: %w", err)
	}
	addrs, err := b.dir.Ports(ctx, 1)
	if err != nil {
		return err
	}
	b.addr = addrs[0]
	if err := b.configure(opts); err != nil {
		return fmt.Errorf("pgtest: pgbouncer: %w", err)
	}
	return nil
}

// configure writes the files of the pooler. It reaches the server through its socket, where no
// role needs a password.
func (b *Bouncer) configure(opts BouncerOptions) error {
	settings := map[string]string{
		"listen_addr":        "127.0.0.1",
		"listen_port":        portOf(b.addr),
		"unix_socket_dir":    "",
		"auth_type":          "trust",
		"auth_file":          b.file("roles"),
		"auth_user":          superuser, // looks up the other roles
		"admin_users":        superuser,
		"pool_mode":          opts.Mode,
		"default_pool_size":  strconv.Itoa(opts.PoolSize),
		"max_client_conn":    "1000",
		"server_login_retry": "1", // the default, 15 s, is long for a test
	}
	maps.Copy(settings, opts.Config)
	var text strings.Builder
	fmt.Fprintf(&text, "[databases]\n* = host=%s port=%s\n[pgbouncer]\n", conninfo(b.server.dir.Path()), portOf(b.server.addr))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = %s\n", name, settings[name])
	}
	for name, content := range map[string]string{"roles": strconv.Quote(superuser) + ` ""` + "\n", "ini": text.String()} {
		if err := os.WriteFile(b.file(name), []byte(content), 0o600); err != nil {
			return err
		}
		if err := b.server.as.own(b.file(name)); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bouncer) file(name string) string { return filepath.Join(b.dir.Path(), name) }

// launch starts the process and returns when it admits clients.
func (b *Bouncer) launch(ctx context.Context) error {
	p, err := b.start(ctx)
	if err != nil {
		return err
	}
	progressing, cancel := testserver.Progressing(ctx, b.server.opts.StartTimeout, p.StderrLen)
	defer cancel()
	// Another process that has the port may accept the connection and never answer.
	alive, stop := context.WithCancel(progressing)
	defer stop()
	go func() { // ends with alive
		select {
		case <-p.Done():
			stop()
		case <-alive.Done():
		}
	}()
	for {
		_, err := b.console(alive, "show version")
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("pgtest: start pgbouncer: %w", p.Err())
		case <-progressing.Done():
			return fmt.Errorf("pgtest: start pgbouncer: %w: %w: the end of its log:\n%s", context.Cause(progressing), err, process.LastLines(p.Stderr(), 20))
		case <-time.After(pollEvery):
		}
	}
}

func (b *Bouncer) start(ctx context.Context) (*process.Process, error) {
	// ctx bounds only the start: the process outlives it.
	cmd := process.Command(context.WithoutCancel(ctx), b.program, b.file("ini"))
	cmd.Dir, cmd.Env, cmd.SysProcAttr = b.dir.Path(), environment(os.Environ()), b.server.as.attributes()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("pgtest: start pgbouncer: %w", errClosed)
	}
	b.process = process.Start(cmd)
	return b.process, nil
}

// console runs a command of the pooler's console and returns the rows.
func (b *Bouncer) console(ctx context.Context, command string) ([]map[string]any, error) {
	config, err := pgx.ParseConfig(urlOf(b.addr, superuser, "", "pgbouncer", url.Values{"sslmode": {"disable"}}))
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // it knows no other
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("pgtest: pgbouncer: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing of it is left
	rows, err := conn.Query(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("pgtest: pgbouncer: %s: %w", command, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		return nil, fmt.Errorf("pgtest: pgbouncer: %s: %w", command, err)
	}
	return all, nil
}

// URL returns the URL of the database "postgres" for the role "postgres", through the pooler. A
// client must not prepare statements by name.
func (b *Bouncer) URL() string { return b.URLAs(superuser) }

// URLAs is URL for another role, which must exist.
func (b *Bouncer) URLAs(role string) string {
	return urlOf(b.addr, role, "", database, url.Values{"sslmode": {"disable"}})
}

// Addr returns the "host:port" of the pooler.
func (b *Bouncer) Addr() string { return b.addr }

// Kill ends the process at once (SIGKILL), with all connections, and returns when it is gone.
// Further calls do nothing.
func (b *Bouncer) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil {
		b.process.Halt()
	}
}

// Restart kills the process if it still runs and starts it again, at the same address. It returns
// when it admits clients. It fails after Close, which also ends a Restart.
func (b *Bouncer) Restart(ctx context.Context) error {
	b.Kill()
	return b.launch(ctx)
}

// Pause makes new transactions of clients wait until Resume. It returns when those under way have
// ended, or in the mode "session" when the clients have.
func (b *Bouncer) Pause(ctx context.Context) error {
	_, err := b.console(ctx, "pause")
	return err
}

// Resume ends Pause.
func (b *Bouncer) Resume(ctx context.Context) error {
	_, err := b.console(ctx, "resume")
	return err
}

// KillServerConnections ends the backends of all connections that the pooler has to the server, as
// an operator does with pg_terminate_backend. It returns how many that were.
func (b *Bouncer) KillServerConnections(ctx context.Context) (int, error) {
	servers, err := b.console(ctx, "show servers")
	if err != nil {
		return 0, err
	}
	var pids []int32
	for _, row := range servers {
		pid, err := strconv.ParseInt(fmt.Sprint(row["remote_pid"]), 10, 32)
		if err != nil {
			return 0, fmt.Errorf("pgtest: pgbouncer: show servers: %w", err)
		}
		pids = append(pids, int32(pid))
	}
	return Value[int](ctx, b.server, "select count(*) from unnest($1::int[]) pid where pg_terminate_backend(pid)", pids)
}

// Close kills the process and removes what Bouncer has made. Further calls return the first result.
func (b *Bouncer) Close() error { return b.close() }

func (b *Bouncer) shutdown() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.Kill()
	if b.dir == nil {
		return nil
	}
	return b.dir.Remove()
}

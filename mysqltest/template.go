package mysqltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/testserver"
)

// templates has one template for each program: mariadb-install-db takes half a second. One takes 9 MB.
var templates struct {
	sync.Mutex
	of map[string]*testserver.Template
}

// templateOf returns the template of a program. The first time it is made in memory, even for a
// server on the disk, which mariadb-install-db would wait for hundreds of times.
func templateOf(ctx context.Context, program string) (t *testserver.Template, err error) {
	templates.Lock()
	defer templates.Unlock()
	if t, ok := templates.of[program]; ok {
		return t, nil
	}
	dir, err := testserver.MakeDir("mysqltest", true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	data := filepath.Join(dir.Path(), "template")
	if err := initialize(ctx, program, data); err != nil {
		return nil, err
	}
	t, err = testserver.ReadTemplate(data)
	if err != nil {
		return nil, fmt.Errorf("mysqltest: read what mariadb-install-db has made: %w", err)
	}
	if templates.of == nil {
		templates.of = map[string]*testserver.Template{}
	}
	templates.of[program] = t
	return t, nil
}

// initialize runs mariadb-install-db. The root of the database needs no password then.
func initialize(ctx context.Context, program, data string) error {
	install, err := installer(program)
	if err != nil {
		return err
	}
	arguments := append([]string{"--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal"}, user()...)
	settings := small()
	settings["innodb_flush_log_at_trx_commit"] = "0"
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		arguments = append(arguments, "--"+strings.ReplaceAll(name, "_", "-")+"="+settings[name])
	}
	cmd := exec.CommandContext(ctx, install, arguments...)
	cmd.Dir, cmd.Env = filepath.Dir(data), environment(os.Environ())
	p := process.Start(cmd)
	if err := p.Wait(); err != nil {
		return fmt.Errorf("mysqltest: mariadb-install-db: %w", errors.Join(context.Cause(ctx), err, errors.New(strings.TrimSpace(p.Stderr()))))
	}
	return nil
}

// user is the argument without which the server refuses to run as root.
func user() []string {
	if os.Getuid() != 0 {
		return nil
	}
	return []string{"--user=root"}
}

// environment returns the variables without those of MariaDB, and with messages in English.
func environment(all []string) []string {
	var kept []string
	for _, v := range all {
		if !strings.HasPrefix(v, "MYSQL_") && !strings.HasPrefix(v, "MARIADB_") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			kept = append(kept, v)
		}
	}
	return append(kept, "LC_ALL=C")
}

// lines returns settings as my.cnf has them.
func lines(settings map[string]string) string {
	all := []string{"[mariadbd]"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		all = append(all, name+"="+quoted(settings[name]))
	}
	return strings.Join(all, "\n") + "\n"
}

// quoted returns a value as my.cnf has it: a backslash begins an escape there.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

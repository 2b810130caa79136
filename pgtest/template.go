package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/testserver"
)

// templates has one template for each folder of programs: initdb takes half a second. Most files are
// the same in each of the three databases, so one takes 10 MB.
var templates struct {
	sync.Mutex
	of map[string]*testserver.Template
}

// templateOf returns the template of programs. It is made in dir the first time.
func templateOf(ctx context.Context, programs string, as serverUser, dir string) (*testserver.Template, error) {
	templates.Lock()
	defer templates.Unlock()
	if t, ok := templates.of[programs]; ok {
		return t, nil
	}
	data := filepath.Join(dir, "template")
	defer func() { _ = os.RemoveAll(data) }() // the folder above it is removed too
	if err := initialize(ctx, programs, as, data); err != nil {
		return nil, err
	}
	t, err := testserver.ReadTemplate(data)
	if err != nil {
		return nil, fmt.Errorf("pgtest: read what initdb has made: %w", err)
	}
	if templates.of == nil {
		templates.of = map[string]*testserver.Template{}
	}
	templates.of[programs] = t
	return t, nil
}

// initialize runs initdb.
func initialize(ctx context.Context, programs string, as serverUser, data string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "--pgdata", data, "--username", superuser,
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = filepath.Dir(data), environment(os.Environ()), as.attributes()
	p := process.Start(cmd)
	if err := p.Wait(); err != nil {
		return fmt.Errorf("pgtest: initdb: %w", errors.Join(context.Cause(ctx), as.explain(err), errors.New(strings.TrimSpace(p.Stderr()))))
	}
	return nil
}

// environment returns the variables without those of PostgreSQL, and with messages in English.
func environment(all []string) []string {
	var kept []string
	for _, v := range all {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			kept = append(kept, v)
		}
	}
	return append(kept, "LC_ALL=C")
}

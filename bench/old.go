package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/bench/stand"
)

// old is an earlier commit of fairlock, to compare with the present one. One program cannot contain
// two versions of a module. So contestants run in workers: one program of this module, built twice.
// Both builds use this module's go.mod, each with other folders for the modules of fairlock. So
// both workers are driven by the same code and have the same versions of all other modules, or
// those that the earlier commit requires if they are newer.
type old struct {
	Ref    string `json:"ref"`    // the name from the command line
	Commit string `json:"commit"` // the commit with that name
	New    string `json:"new"`    // the commit that it is compared with

	newWorker, oldWorker string // programs
	remove               func() error
}

const (
	ourModule   = "github.com/fairlock/fairlock"
	benchModule = ourModule + "/bench"
)

// ourModules matches the paths of fairlock's modules in a go.mod.
var ourModules = regexp.MustCompile(regexp.QuoteMeta(ourModule) + `(/[\w/]+)?`)

// buildOld builds the workers in a temporary folder, from the checkout of the current folder.
func buildOld(ctx context.Context, ref string) (*old, error) {
	folder, err := benchFolder(ctx)
	if err != nil {
		return nil, fmt.Errorf("-old %s: %w", ref, err)
	}
	o, err := resolve(ctx, folder, ref)
	if err == nil {
		err = o.build(ctx, folder)
	}
	if err != nil {
		return nil, fmt.Errorf("-old %s: %w", ref, err)
	}
	return o, nil
}

// benchFolder returns the folder with the sources of this module.
func benchFolder(ctx context.Context) (string, error) {
	text, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}")
	path, folder, _ := strings.Cut(text, " ")
	if err != nil || path != benchModule {
		return "", errors.Join(errors.New("bench does not run in its own folder of a checkout; use: go -C bench run . -old COMMIT"), err)
	}
	return folder, nil
}

// resolve finds the commits that are compared. Both must exist, so that a report can name what it
// is about.
func resolve(ctx context.Context, folder, ref string) (*old, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, fmt.Errorf("git is needed to read a commit: %w", err)
	}
	o := &old{Ref: ref}
	var err error
	o.New, err = git(ctx, folder, "rev-parse", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("%s is in no checkout with a commit: %w", folder, err)
	}
	o.Commit, err = git(ctx, folder, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if err != nil {
		shallow, _ := git(ctx, folder, "rev-parse", "--is-shallow-repository")
		if shallow == "true" {
			return nil, fmt.Errorf("%q is no commit in this clone, which is shallow; get the rest by: git fetch --unshallow --tags", ref)
		}
		return nil, fmt.Errorf("%q is no commit or tag in this clone", ref)
	}
	changed, err := git(ctx, folder, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return nil, fmt.Errorf("the checkout has changes that no commit has; commit or stash them:\n%s", changed)
	}
	return o, nil
}

// build builds both workers. After an error it leaves no files.
func (o *old) build(ctx context.Context, folder string) error {
	dir, err := os.MkdirTemp("", "fairlock-bench-")
	if err != nil {
		return err
	}
	o.remove = func() error { return os.RemoveAll(dir) }
	if err := o.buildIn(ctx, folder, dir); err != nil {
		return errors.Join(err, o.remove())
	}
	return nil
}

func (o *old) buildIn(ctx context.Context, folder, dir string) error {
	top, err := git(ctx, folder, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if err := checkOut(ctx, top, o.Commit, tree); err != nil {
		return err
	}
	o.newWorker, o.oldWorker = filepath.Join(dir, "worker-new"), filepath.Join(dir, "worker-old")
	if err := buildWorker(ctx, folder, top, o.newWorker); err != nil {
		return fmt.Errorf("the present code does not build: %w", err)
	}
	if err := buildWorker(ctx, folder, tree, o.oldWorker); err != nil {
		return fmt.Errorf("commit %s does not build with what drives it, folder worker: %w", o.Commit, err)
	}
	return os.RemoveAll(tree)
}

// buildWorker builds the worker of this module with the fairlock of a tree.
func buildWorker(ctx context.Context, folder, tree, worker string) error {
	mod := worker + ".mod"
	if err := modulesOf(ctx, folder, tree, mod); err != nil {
		return err
	}
	args := []string{"build", "-buildvcs=false", "-modfile", mod, "-mod=mod", "-o", worker}
	var without []string // the commit is from before
	for backend, tag := range map[string]string{"pgbackend": "nopostgres", "redisbackend": "noredis"} {
		_, err := os.Stat(filepath.Join(tree, backend))
		if errors.Is(err, fs.ErrNotExist) {
			without = append(without, tag)
		}
	}
	if without != nil {
		args = append(args, "-tags", strings.Join(without, ","))
	}
	_, err := output(ctx, folder, "go", append(args, "./worker")...)
	return err
}

// checkOut writes the files of a commit to a folder. It uses an index of its own, so it never
// changes the checkout, its index and its list of worktrees.
func checkOut(ctx context.Context, top, commit, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	index := "GIT_INDEX_FILE=" + to + ".index"
	if _, err := execute(ctx, top, []string{index}, "git", "read-tree", commit); err != nil {
		return err
	}
	_, err := execute(ctx, top, []string{index}, "git", "checkout-index", "--all", "--prefix="+to+"/")
	return err
}

// modulesOf writes a go.mod and a go.sum. They differ from those of this module only in the
// folders of fairlock's modules, which are those of tree. A module that tree does not have was
// part of its root then.
func modulesOf(ctx context.Context, folder, tree, mod string) error {
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err != nil {
		return err
	}
	edit := []string{"mod", "edit"}
	for _, module := range append(slices.Compact(ourModules.FindAllString(string(text), -1)), ourModule) {
		if module == benchModule {
			continue
		}
		at := filepath.Join(tree, strings.TrimPrefix(module, ourModule))
		more, err := os.ReadFile(filepath.Join(at, "go.sum"))
		switch {
		case err == nil:
			sums = append(sums, more...)
			edit = append(edit, "-replace", module+"="+at)
		case errors.Is(err, fs.ErrNotExist):
			edit = append(edit, "-droprequire", module)
		default:
			return err
		}
	}
	if err := errors.Join(os.WriteFile(mod, text, 0o644), os.WriteFile(strings.TrimSuffix(mod, ".mod")+".sum", sums, 0o644)); err != nil {
		return err
	}
	_, err = output(ctx, folder, "go", append(edit, mod)...)
	return err
}

func git(ctx context.Context, folder string, args ...string) (string, error) {
	return output(ctx, folder, "git", args...)
}

// output runs a program in a folder and returns its output, without space at the end. An error
// contains what the program wrote to stderr.
func output(ctx context.Context, folder, program string, args ...string) (string, error) {
	return execute(ctx, folder, nil, program, args...)
}

func execute(ctx context.Context, folder string, env []string, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = folder, append(os.Environ(), append(env, "GOWORK=off")...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(string(text), " \n"), nil
}

// with returns a service with its contestants of ours at both commits.
func (o *old) with(s service) service {
	s.Contestants = stand.WithOld(s.Contestants, o.Ref)
	return s
}

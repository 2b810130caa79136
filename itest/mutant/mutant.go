// Package mutant plants bugs in the library, to show that the tests find such bugs. A lock service
// or its client has had each of them, or this library almost had.
//
// Each bug is a patch, so that the library itself has no trace of it. Those in this folder are for the
// simulation; those of a package with tests that find them are in a folder of that package. The first
// line of a patch describes what the library does wrong with it. To look at one, apply it to a clone
// with git apply.
//
// When a patch no longer applies, because the code around it has changed, apply it by hand, and
// write the difference over the patch, below its first lines.
package mutant

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Mutant is one planted bug.
type Mutant struct {
	Name string
	Does string // what the library does wrong

	// Recipe is the recipe that can show it; "" if several can.
	Recipe string

	// Service is the kind of service in memory that can show it; "" if all can. See package
	// memtest for the kinds.
	Service string

	// Test is the test that finds it; "" if the simulation does. Package is the folder of its package: that of
	// the first file that it changes, if the patch names none.
	Test, Package string

	patch string   // the file
	files []string // that the patch changes, by their paths in the module
}

// All reads the patches in a folder, in the order of their names.
func All(folder string) ([]Mutant, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, fmt.Errorf("mutants: %w", err)
	}
	var all []Mutant
	for _, path := range paths {
		m, err := read(path)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// read reads a patch.
func read(path string) (Mutant, error) {
	f, err := os.Open(path)
	if err != nil {
		return Mutant{}, fmt.Errorf("mutants: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	m := Mutant{Name: strings.TrimSuffix(filepath.Base(path), ".patch"), patch: path}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch file, changes := strings.CutPrefix(lines.Text(), "+++ b/"); {
		case changes:
			m.files = append(m.files, file)
		case len(m.files) > 0: // the rest is the patch itself
		case key == m.Name:
			m.Does = value
		case key == "Recipe":
			m.Recipe = value
		case key == "Service":
			m.Service = value
		case key == "Test":
			m.Test = value
		case key == "Package":
			m.Package = value
		}
	}
	if m.Does == "" || len(m.files) == 0 {
		return m, fmt.Errorf("mutants: %s must begin with %q and what it does, and change a file", path, m.Name+":")
	}
	if m.Package == "" {
		m.Package = filepath.Dir(m.files[0])
	}
	return m, nil
}

// Overlay applies the patch to copies of the files in an empty folder, and returns the file that
// go build -overlay takes. root is the folder of the module.
func (m Mutant) Overlay(ctx context.Context, root, empty string) (string, error) {
	patch, err := filepath.Abs(m.patch)
	if err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	replace := map[string]string{}
	for _, file := range m.files {
		from, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			return "", fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		to := filepath.Join(empty, file)
		replace[from] = to
		if err := copyFile(from, to); err != nil {
			return "", fmt.Errorf("mutant %s: %w", m.Name, err)
		}
	}
	apply := exec.CommandContext(ctx, "git", "apply", patch)
	apply.Dir = empty
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(empty)) // the folder is no part of a clone
	if out, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %s: the patch does not apply, see package mutant: %w: %s", m.Name, err, out)
	}
	overlay := filepath.Join(empty, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	return overlay, nil
}

// Build builds the tests of a package with the bug in the library, and returns the program. pkg is as
// for go test; root is the folder of the module of the library, and empty a folder to build in.
func (m Mutant) Build(ctx context.Context, root, pkg, empty string) (string, error) {
	overlay, err := m.Overlay(ctx, root, empty)
	if err != nil {
		return "", err
	}
	exe := filepath.Join(empty, "mutant.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w -s", "-overlay", overlay, "-o", exe, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %s: %w\n%s", m.Name, err, out)
	}
	return exe, nil
}

// Each calls f for each of several mutants, for as many at once as there are processors, and returns
// when all calls have.
func Each(all []Mutant, f func(Mutant)) {
	var running sync.WaitGroup
	processors := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, m := range all {
		running.Go(func() {
			processors <- struct{}{}
			defer func() { <-processors }()
			f(m)
		})
	}
	running.Wait()
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err //nolint:wrapcheck // the caller does
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err //nolint:wrapcheck // the caller does
	}
	return os.WriteFile(to, text, 0o600) //nolint:wrapcheck // the caller does
}

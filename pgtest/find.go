package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

const (
	programsVariable = "FAIRLOCK_POSTGRES"
	debianPrograms   = "/usr/lib/postgresql"
	toInstall        = "install it (Debian: apt-get install postgresql)"
)

// Find returns the folder with the programs with which Start runs a server. It is the one that
// the environment variable FAIRLOCK_POSTGRES names, or the one in PATH, or else the newest
// of Debian's packages, in /usr/lib/postgresql. The error is one sentence that names what
// to install or to set.
func Find() (programs string, err error) {
	return find(places{set: os.Getenv(programsVariable), debian: debianPrograms, lookPath: exec.LookPath})
}

// places are the locations to search.
type places struct {
	set      string // "" is not set
	debian   string // has a folder for each version
	lookPath func(program string) (string, error)
}

func find(in places) (string, error) {
	if in.set != "" {
		programs, err := complete(in.set)
		if err != nil {
			return "", fmt.Errorf("%w: set %s to such a folder or unset it", err, programsVariable)
		}
		return programs, nil
	}
	program, err := in.lookPath("postgres")
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err == nil {
		programs, err := complete(filepath.Dir(program))
		if err == nil {
			return programs, nil
		}
	}
	folders, _ := filepath.Glob(filepath.Join(in.debian, "*", "bin", "initdb"))
	slices.SortFunc(folders, func(a, b string) int { return version(b) - version(a) })
	for _, initdb := range folders {
		programs, err := complete(filepath.Dir(initdb))
		if err == nil {
			return programs, nil
		}
	}
	return "", fmt.Errorf("pgtest: no PostgreSQL here: %s, or set %s to the folder of its programs", toInstall, programsVariable)
}

// complete returns the absolute path of a folder that has the programs. The servers run in
// another working directory than this process.
func complete(programs string) (string, error) {
	abs, err := filepath.Abs(programs)
	if err != nil {
		return "", fmt.Errorf("pgtest: find PostgreSQL: %w", err)
	}
	for _, program := range []string{"postgres", "initdb"} {
		if _, err := exec.LookPath(filepath.Join(abs, program)); err != nil {
			return "", fmt.Errorf("pgtest: no program %s in the folder %q", program, programs)
		}
	}
	return abs, nil
}

// version is that of Debian's folder version/bin/initdb, 0 if it is no number.
func version(initdb string) int {
	v, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	if err != nil {
		return 0
	}
	return v
}

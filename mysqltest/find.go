package mysqltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	programVariable = "FAIRLOCK_MARIADB"
	debianProgram   = "/usr/sbin/mariadbd"
	toInstall       = "run \"make mariadb\" in a clone of Fairlock, or install it (Debian: apt-get install mariadb-server-core mariadb-client-core)"
)

// Find returns the program with which Start runs a server. It is the one that the environment
// variable FAIRLOCK_MARIADB names, or mariadbd in PATH, or Debian's, which only root has in
// PATH. The error is one sentence that names what to install or to set.
func Find() (program string, err error) { return find(os.Getenv(programVariable), exec.LookPath) }

func find(set string, lookPath func(program string) (string, error)) (string, error) {
	if set != "" {
		program, err := absolute(set)
		if err != nil {
			return "", fmt.Errorf("%w: set %s to mariadbd, or unset it", err, programVariable)
		}
		return program, nil
	}
	for _, name := range []string{"mariadbd", debianProgram} {
		program, err := lookPath(name)
		if err == nil {
			return absolute(program)
		}
	}
	return "", fmt.Errorf("mysqltest: no MariaDB here: %s, or set %s to mariadbd", toInstall, programVariable)
}

// absolute returns the absolute path of a program. The servers run in another working directory
// than this process.
func absolute(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", fmt.Errorf("mysqltest: no program %q", program)
	}
	return path, nil
}

// installer returns the program that makes the system tables for a server.
func installer(program string) (string, error) {
	const name = "mariadb-install-db"
	folder := filepath.Dir(program)
	for _, at := range []string{filepath.Join(folder, name), filepath.Join(folder, "..", "bin", name), name} {
		path, err := absolute(at)
		if err == nil {
			return path, nil
		}
	}
	return "", errors.New("mysqltest: no program " + name + " here: " + toInstall)
}

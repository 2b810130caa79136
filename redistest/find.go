package redistest

import (
	"fmt"
	"os"
	"os/exec"
)

const (
	programVariable = "FAIRLOCK_REDIS"
	toInstall       = "run \"make redis\" in a clone of Fairlock, or install it (Debian: apt-get install redis-server)"
)

// Find returns the program with which Start runs a server. It is the one that the environment
// variable FAIRLOCK_REDIS names, or redis-server in PATH, or valkey-server there. The error is
// one sentence that names what to install or to set.
func Find() (program string, err error) { return find(os.Getenv(programVariable), exec.LookPath) }

func find(set string, lookPath func(program string) (string, error)) (string, error) {
	if set != "" {
		program, err := absolute(set)
		if err != nil {
			return "", fmt.Errorf("%w: set %s to redis-server or valkey-server, or unset it", err, programVariable)
		}
		return program, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		program, err := lookPath(name)
		if err == nil {
			return absolute(program)
		}
	}
	return "", fmt.Errorf("redistest: no Redis here: %s, or set %s to redis-server or valkey-server", toInstall, programVariable)
}

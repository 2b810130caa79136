//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// serverUser is the user that runs the servers: PostgreSQL refuses to run as root.
type serverUser struct {
	name     string
	uid, gid int
	other    bool // it is not the user of this process
}

// findServerUser returns the user for servers.
func findServerUser() (serverUser, error) {
	if os.Getuid() != 0 {
		return serverUser{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			return serverUser{}, fmt.Errorf("pgtest: user %q: %w", name, err)
		}
		gid, err := strconv.Atoi(found.Gid)
		if err != nil {
			return serverUser{}, fmt.Errorf("pgtest: user %q: %w", name, err)
		}
		return serverUser{name, uid, gid, true}, nil
	}
	return serverUser{}, errors.New("pgtest: PostgreSQL refuses to run as root, and there is no user postgres or nobody: run the tests as another user")
}

// own gives a file or folder to the user.
func (u serverUser) own(path string) error {
	if !u.other {
		return nil
	}
	return os.Lchown(path, u.uid, u.gid)
}

// attributes makes a process run as the user.
func (u serverUser) attributes() *syscall.SysProcAttr {
	if !u.other {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}}
}

// explain adds the remedy to the error of a program that could not be started.
func (u serverUser) explain(err error) error {
	if u.other && errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: the user %q must be able to enter the folder", err, u.name)
	}
	return err
}

//go:build !linux

package supervise

import (
	"errors"
	"os"

	"github.com/fairlock/fairlock/session/driver"
)

// guard: elsewhere there is none.
type guard struct{}

func startGuard([]string) (*guard, error) { return nil, nil }

func (*guard) watch(int, driver.Instant) {}

func (*guard) dismiss() {}

func (*guard) badge() []string { return nil }

// Guard is for Linux.
func Guard(*os.File) error { return errors.New("guard: not on this system") }

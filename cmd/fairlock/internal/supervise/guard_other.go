//go:build !linux

package supervise

import (
	"errors"
	"os"

	"github.com/fairlock/fairlock/session/driver"
)

// guard is empty: only Linux has guards.
type guard struct{}

func startGuard([]string) (*guard, error) { return nil, nil }

func (*guard) send(int, driver.Instant) {}

func (*guard) end() {}

func (*guard) marker() []string { return nil }

func (*guard) number() int { return 0 }

// Guard returns an error: only Linux has guards.
func Guard(*os.File) error { return errors.New("guard: not on this system") }

package etcdbackend

import (
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session/driver"
)

// errFull is what NOSPACE means to the reader of a log.
var errFull = errors.New(`etcd raised the alarm NOSPACE, its quota is used up: entries can be deleted but not made ` +
	`until an operator compacts, defragments and disarms it (etcdctl alarm disarm)`)

// errClientClosed: the program closed the client under a living session.
var errClientClosed = errors.New("the etcd client is closed")

// translate puts the driver's word for an outcome around etcd's error.
func translate(err error) error {
	switch classify(err) {
	case denied, badToken:
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case refused:
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case full:
		return fmt.Errorf("%w: %w: %w", driver.ErrRefused, errFull, err)
	case sessionOver:
		return fmt.Errorf("%w: %w", driver.ErrSessionOver, err)
	case unknown, notDone:
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

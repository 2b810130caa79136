package etcdbackend

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

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

// explain adds which permission a user needs, where one is missing: etcd does not
// tell on which key.
func (l layout) explain(err error) error {
	if !errors.Is(err, rpctypes.ErrPermissionDenied) {
		return err
	}
	if l.kind == LayoutConcurrency {
		return fmt.Errorf("%w: READWRITE on the prefix %q and on that of the lock is needed", err, l.root+"/")
	}
	return fmt.Errorf("%w: READWRITE on the prefix %q is needed", err, l.root+"/")
}

package etcdbackend

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock/session/driver"
)

// Limit implements driver.Backend.
func (b *backend) Limit(context.Context, string) (int64, error) { return 0, errors.ErrUnsupported }

// JoinAll implements driver.Session.
func (s *leased) JoinAll(context.Context, []driver.JoinRequest) ([]driver.Joined, error) {
	return nil, errors.ErrUnsupported
}

// LeaveAll implements driver.Session.
func (s *leased) LeaveAll(context.Context, []driver.LeaveRequest) ([]driver.Left, error) {
	return nil, errors.ErrUnsupported
}

// Share implements driver.Session.
func (s *leased) Share(context.Context, driver.Ref) (driver.Ref, error) {
	return driver.Ref{}, errors.ErrUnsupported
}

// Admit implements driver.Session.
func (s *leased) Admit(context.Context, driver.Ref) error { return errors.ErrUnsupported }

// Claim implements driver.Session.
func (s *leased) Claim(context.Context, driver.Ref) (int, error) { return 0, errors.ErrUnsupported }

// Write implements driver.Session.
func (s *leased) Write(context.Context, driver.Ref, []byte) error { return errors.ErrUnsupported }

// Enter implements driver.Session.
func (s *leased) Enter(context.Context, driver.Ref) (driver.Past, error) {
	return driver.PastUnknown, errors.ErrUnsupported
}

// SetLimit implements driver.Session.
func (s *leased) SetLimit(context.Context, string, int64) error { return errors.ErrUnsupported }

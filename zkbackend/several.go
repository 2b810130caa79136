package zkbackend

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock/session/driver"
)

// Limit implements driver.Backend.
func (b *backend) Limit(context.Context, string) (int64, error) { return 0, errors.ErrUnsupported }

// JoinAll implements driver.Session.
func (s *sess) JoinAll(context.Context, []driver.JoinRequest) ([]driver.Joined, error) {
	return nil, errors.ErrUnsupported
}

// LeaveAll implements driver.Session.
func (s *sess) LeaveAll(context.Context, []driver.LeaveRequest) ([]driver.Left, error) {
	return nil, errors.ErrUnsupported
}

// Share implements driver.Session.
func (s *sess) Share(context.Context, driver.Ref) (driver.Ref, error) {
	return driver.Ref{}, errors.ErrUnsupported
}

// Admit implements driver.Session.
func (s *sess) Admit(context.Context, driver.Ref) error { return errors.ErrUnsupported }

// Claim implements driver.Session.
func (s *sess) Claim(context.Context, driver.Ref) (int, error) { return 0, errors.ErrUnsupported }

// Write implements driver.Session.
func (s *sess) Write(context.Context, driver.Ref, []byte) error { return errors.ErrUnsupported }

// Enter implements driver.Session.
func (s *sess) Enter(context.Context, driver.Ref) (driver.Past, error) {
	return driver.PastUnknown, errors.ErrUnsupported
}

// SetLimit implements driver.Session.
func (s *sess) SetLimit(context.Context, string, int64) error { return errors.ErrUnsupported }

package zkbackend

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"

	"github.com/fairlock/fairlock/internal/credential"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// secrets are what connections show to the servers. Certificates, keys and passwords that are in files
// are read again for each connection, so they can be replaced at any time. While a file is missing or
// half written, its last good content counts: see package credential.
type secrets struct {
	// tls returns the configuration for one connection. It is nil without TLS.
	tls func() *tls.Config

	// logins returns the user's logins as they are now. It is a function, or package fmt would print
	// what Auth hides.
	logins func() []Auth

	// log has it logged when a file cannot be read any more, by each session's own logger.
	log func(*slog.Logger)
}

// newSecrets reads the files that options name. A file that cannot be read yet is an error: there is no
// last good content.
func newSecrets(o *Options) (*secrets, error) {
	s := &secrets{}
	var logs []func(*slog.Logger)
	if o.TLS != nil {
		s.tls = func() *tls.Config { return o.TLS }
	} else if o.files().Any() {
		files, err := o.files().Open()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", session.ErrInvalidOptions, err)
		}
		s.tls = files.Config
		logs = append(logs, files.Log)
	}
	auth := slices.Clone(o.Auth)
	passwords := make([]*credential.Password, len(auth))
	for i, a := range auth {
		if a.PasswordFile == "" {
			continue
		}
		p, err := credential.OpenPassword(a.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", session.ErrInvalidOptions, err)
		}
		passwords[i] = p
		logs = append(logs, p.Log)
	}
	s.logins = func() []Auth {
		all := slices.Clone(auth)
		for i, p := range passwords {
			if p != nil {
				all[i] = Auth{Scheme: all[i].Scheme, Credentials: append(bytes.Clone(all[i].Credentials), p.Read()...)}
			}
		}
		return all
	}
	s.log = func(log *slog.Logger) {
		for _, to := range logs {
			to(log)
		}
	}
	return s, nil
}

// connecting returns the logins of one connection of a session that began with some. A password is
// an identity, to which the session's entries belong, and no server refuses an old one. So a
// session keeps those that it began with, and adds those that are in the files now.
func (s *secrets) connecting(began []Auth) (all []conn.Auth) {
	for _, a := range began {
		all = append(all, conn.Auth{Scheme: a.Scheme, Credentials: a.Credentials})
	}
	for _, a := range s.logins() {
		same := func(b Auth) bool { return a.Scheme == b.Scheme && bytes.Equal(a.Credentials, b.Credentials) }
		if !slices.ContainsFunc(began, same) {
			all = append(all, conn.Auth{Scheme: a.Scheme, Credentials: a.Credentials})
		}
	}
	return all
}

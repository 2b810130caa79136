package onpg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/robustness/trial"
)

// Near is a network of its own between the servers and one client, which can be of any lock.
type Near struct{ *network }

// Near makes the network of a client.
func (s *Service) Near() (*Near, error) {
	n, err := s.newNetwork()
	if err != nil {
		return nil, err
	}
	return &Near{n}, nil
}

// URL returns the URL of the servers behind the network. A client finds the server that takes writes.
func (n *Near) URL() string { return n.url + writable }

// URL returns the URL of the servers for a client without a network of its own.
func (s *Service) URL() string { return s.direct() + writable }

const writable = "&target_session_attrs=read-write"

// Prepare makes tables as the owner of the database. The clients may use all tables of the schema.
func (s *Service) Prepare(ctx context.Context, schema, sql string) error {
	err := s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql+";\ngrant usage on schema "+schema+" to "+app+
			";\ngrant select, insert, update, delete on all tables in schema "+schema+" to "+app)
		return err
	})
	if err == nil && s.standby != nil {
		err = s.standby.CatchUp(ctx)
	}
	return err
}

// Break returns the fault of that name; nil if this setup has none.
func (s *Service) Break(name string) *trial.Break {
	for _, b := range s.Breaks() {
		if b.Name == name {
			return &b
		}
	}
	return nil
}

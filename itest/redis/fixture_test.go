package redis

import (
	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/redistest"
)

// oneOption is how a client reaches one server.
func oneOption(s *redistest.Server) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.Addr()}}
}

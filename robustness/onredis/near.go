package onredis

import (
	"encoding/json"

	"github.com/redis/go-redis/v9"

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

// Clients returns new clients of go-redis, which wait for an answer as those of peers do: one of each server, or
// one of the master that Sentinels watch.
func (n *Near) Clients() []*redis.Client { return n.clients() }

// Target returns where another process finds the servers, for Reach.
func (s *Service) Target() (json.RawMessage, error) { return json.Marshal(s.target()) }

// Reach is Near in another process, without proxies.
func Reach(arg json.RawMessage) (*Near, error) {
	n := &network{}
	return &Near{n}, json.Unmarshal(arg, &n.target)
}

// Break returns the fault of that name, which may be Beyond; nil if this setup has none.
func (s *Service) Break(name string) *trial.Break {
	for _, b := range s.Breaks() {
		if b.Name == name {
			return &b
		}
	}
	return nil
}

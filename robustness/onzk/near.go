package onzk

import (
	"context"
	"encoding/json"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/trial"
)

// Near is a network of its own between the servers and one client, which can be of any lock.
type Near struct{ *network }

// Near makes the network of a client.
func (s *Service) Near() (*Near, error) {
	n, err := newNetwork(s.endpoints, nil, s.learn)
	if err != nil {
		return nil, err
	}
	return &Near{n}, nil
}

// Connect opens a client of go-zookeeper. onEvent is called with the states of its connection.
func (n *Near) Connect(onEvent func(zk.Event)) (*zk.Conn, error) {
	return connect(n.servers(), trial.TTL, n.dial, onEvent)
}

// Prepare makes a node.
func (s *Service) Prepare(ctx context.Context, path string) error {
	return s.admin.createNode(ctx, path)
}

// Target returns where another process finds the servers, for Reach.
func (s *Service) Target() (json.RawMessage, error) { return json.Marshal(s.endpoints) }

// Reach is Near in another process.
func Reach(arg json.RawMessage) (*Near, error) {
	var e endpoints
	if err := json.Unmarshal(arg, &e); err != nil {
		return nil, err
	}
	if err := e.load(); err != nil {
		return nil, err
	}
	n, err := newNetwork(&e, nil, func(int64, string) {})
	if err != nil {
		return nil, err
	}
	return &Near{n}, nil
}

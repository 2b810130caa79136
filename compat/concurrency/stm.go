package concurrency

import (
	"context"

	v3 "go.etcd.io/etcd/client/v3"
	etcd "go.etcd.io/etcd/client/v3/concurrency"
)

// STM is that of etcd's package: software transactional memory needs no session.
type STM = etcd.STM

// STMOption is that of etcd's package.
type STMOption = etcd.STMOption

// Isolation is that of etcd's package.
type Isolation = etcd.Isolation

// The isolation levels are those of etcd's package.
const (
	SerializableSnapshot = etcd.SerializableSnapshot
	Serializable         = etcd.Serializable
	RepeatableReads      = etcd.RepeatableReads
	ReadCommitted        = etcd.ReadCommitted
)

// NewSTM calls that of etcd's package.
func NewSTM(c *v3.Client, apply func(STM) error, so ...STMOption) (*v3.TxnResponse, error) {
	return etcd.NewSTM(c, apply, so...)
}

// NewSTMRepeatable calls that of etcd's package.
func NewSTMRepeatable(ctx context.Context, c *v3.Client, apply func(STM) error) (*v3.TxnResponse, error) {
	return NewSTM(c, apply, WithAbortContext(ctx), WithIsolation(RepeatableReads))
}

// NewSTMSerializable calls that of etcd's package.
func NewSTMSerializable(ctx context.Context, c *v3.Client, apply func(STM) error) (*v3.TxnResponse, error) {
	return NewSTM(c, apply, WithAbortContext(ctx), WithIsolation(Serializable))
}

// NewSTMReadCommitted calls that of etcd's package.
func NewSTMReadCommitted(ctx context.Context, c *v3.Client, apply func(STM) error) (*v3.TxnResponse, error) {
	return NewSTM(c, apply, WithAbortContext(ctx), WithIsolation(ReadCommitted))
}

// WithIsolation calls that of etcd's package.
func WithIsolation(lvl Isolation) STMOption { return etcd.WithIsolation(lvl) }

// WithAbortContext calls that of etcd's package.
func WithAbortContext(ctx context.Context) STMOption { return etcd.WithAbortContext(ctx) }

// WithPrefetch calls that of etcd's package.
func WithPrefetch(keys ...string) STMOption { return etcd.WithPrefetch(keys...) }

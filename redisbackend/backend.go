package redisbackend

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/redisbackend/internal/call"
	"github.com/fairlock/fairlock/redisbackend/internal/link"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// backend is one root of one Redis. What has no comment of its own does not change after newBackend.
type backend struct {
	opts   Options
	prefix string
	clock  driver.Clock
	hook   call.Hook

	database int // its number

	finder *link.Finder
	calls  *link.Line // of all calls and notices
	turns  call.Turns // of calls

	mu      sync.Mutex
	live    map[string]struct{} // the sessions of this backend that were not abandoned; no other session of it ends them
	scripts *script.Set         // those of the kind of server that was found

	quarantine observed.Quarantine

	// greatest is the greatest number that this program has seen: place, token or version. It only grows. A
	// new life goes on above those of all programs that open sessions in its quarantine, and each session
	// above that of its own program, also where the root's last number was lost with the data.
	greatest atomic.Int64
}

// seen returns the greatest number that was seen, or 0.
func (b *backend) seen() int64 { return b.greatest.Load() }

// saw takes in a number that an answer has shown.
func (b *backend) saw(number int64) {
	for {
		before := b.greatest.Load()
		if number <= before || b.greatest.CompareAndSwap(before, number) {
			return
		}
	}
}

// NewBackend returns the backend that Open uses, for the conformance suite and for tools. It connects when
// it is first used, and Close closes its connections.
func NewBackend(client rueidis.ClientOption, opts *Options) (driver.Backend, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, fmt.Errorf("redisbackend: %w", err)
	}
	finder, err := link.NewFinder(client)
	if err != nil {
		return nil, fmt.Errorf("redisbackend: %w: %w", session.ErrInvalidOptions, err)
	}
	return &backend{
		opts: o, prefix: script.Prefix(o.Root), clock: driver.SystemClock(), finder: finder, calls: link.NewLine(finder),
		turns: call.NewTurns(), live: map[string]struct{}{}, scripts: script.New(script.Kind{Database: client.SelectDB}), database: client.SelectDB,
	}, nil
}

// Info implements driver.Backend.
func (b *backend) Info() driver.Info {
	return driver.Info{
		Service: "redis",
		Clock:   b.clock,
		MinTTL:  minTTL,
		MaxTTL:  b.opts.MaxTTL,
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, 100*time.Millisecond) },
		MaxJoin: maxJoin,
		MaxData: maxData,
		Keeps:   b.opts.keeps(),
	}
}

// keeps is what a root keeps of the promises of a queue.
//
// Every restart and every failover is a new life, in which nothing is granted until all earlier holds have
// ended. With a majority for each renewal, a master that was replaced cannot go on. So exclusion is kept, as
// long as no server that has followed the new master goes back to the old one. What waits joins again, and
// the data may be lost; then tokens follow the clock of the new master, from one greatest TTL ahead of it.
func (o *Options) keeps() driver.Keeps {
	k := driver.Keeps{Exclusion: driver.Always, Order: driver.UntilDataLoss, Tokens: driver.UntilDataLoss}
	if o.AcceptWeaker {
		k.Exclusion, k.Tokens = driver.UntilSplit, driver.UntilSplit
	}
	return k
}

// CheckName implements driver.Backend: every name can be stored.
func (b *backend) CheckName(string) error { return nil }

// Close implements driver.Backend.
func (b *backend) Close() error {
	b.calls.Close()
	return nil
}

// begun and ended keep the list of the sessions of this backend.
func (b *backend) begun(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[session] = struct{}{}
}

func (b *backend) ended(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, session)
}

func (b *backend) owns(session string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.live[session]
	return ok
}

// found takes in the kind of the server.
func (b *backend) found(k script.Kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k.Database = b.database
	if b.scripts.Kind != k {
		b.scripts = script.New(k)
	}
}

// set returns the scripts for the server that was found.
func (b *backend) set() *script.Set {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.scripts
}

// sender returns what sends requests on a line until over ends.
func (b *backend) sender(over context.Context, line *link.Line, turns call.Turns, hook call.Hook) *call.Sender {
	return &call.Sender{Line: line, Prefix: b.prefix, Clock: b.clock, Hook: hook, Turns: turns, Over: over}
}

// Package fencetest shows whether a resource that checks tokens loses updates. It is for the
// packages below fence, each of which gives it a [Client] on its own store.
//
// [Orders] goes through every order in which a few holders can read and write. [Run] is a load
// of processes that are stopped, outlived and woken, killed, and that repeat a write whose
// answer they missed. Package fencetest is the lock service of these processes: it hands out
// rising tokens, the next one whenever a holder has ended or was stopped.
//
// The value of a resource is the list of the updates in it, each the token of its holder, so a
// lost update is one that was acknowledged to its holder and is not in the list.
package fencetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// A Client accesses resources as a holder of their lock does. A resource that was never written
// has the value "". A refused access returns an error that is fence.ErrStale; any other error
// means that the outcome is unknown.
type Client interface {
	Read(ctx context.Context, resource string, t session.Token) (string, error)
	Write(ctx context.Context, resource string, t session.Token, value string) error
}

// Kind is how much of a kit the holders use.
type Kind string

// The kinds of a load.
const (
	Plain  Kind = "plain"  // no access is checked
	Writes Kind = "writes" // only writes are checked
	Kit    Kind = "kit"    // every access is checked, reads included
)

// An Opener returns a client of the store at an address. The client of the kind Plain shows no
// token, that of Kit shows it at every access. Of the kind Writes there is no own client.
type Opener func(ctx context.Context, address string, k Kind) (Client, error)

// open returns a client of any kind.
func (o Opener) open(ctx context.Context, address string, k Kind) (Client, error) {
	if k != Writes {
		return o(ctx, address, k)
	}
	plain, err := o(ctx, address, Plain)
	if err != nil {
		return nil, err
	}
	kit, err := o(ctx, address, Kit)
	return writesOnly{plain, kit}, err
}

type writesOnly struct{ plain, kit Client }

func (w writesOnly) Read(ctx context.Context, resource string, t session.Token) (string, error) {
	return w.plain.Read(ctx, resource, t)
}

func (w writesOnly) Write(ctx context.Context, resource string, t session.Token, value string) error {
	return w.kit.Write(ctx, resource, t, value)
}

// with returns a value with one more update.
func with(value string, t session.Token) string {
	if value == "" {
		return t.String()
	}
	return value + "," + t.String()
}

// missing returns how many of the acknowledged updates a value does not have.
func missing(value string, acknowledged []session.Token) int {
	have := strings.Split(value, ",")
	lost := 0
	for _, t := range acknowledged {
		if !slices.Contains(have, t.String()) {
			lost++
		}
	}
	return lost
}

// Orders calls f with every order in which holders can do two steps each. All of these can
// happen: all holders but one may have lost the lock without knowing it, because they were
// stopped for long enough.
func Orders(holders int, f func(steps []int)) {
	left := make([]int, holders)
	for i := range left {
		left[i] = 2
	}
	var next func(steps []int)
	next = func(steps []int) {
		if len(steps) == 2*holders {
			f(steps)
			return
		}
		for i := range left {
			if left[i] > 0 {
				left[i]--
				next(append(steps, i))
				left[i]++
			}
		}
	}
	next(nil)
}

// InEveryOrder lets holders read and then write a resource each, in every order. It returns the
// number of orders, and in how many of them an acknowledged update is lost.
func InEveryOrder(t testing.TB, open Opener, address string, k Kind, holders int) (orders, lost int) {
	t.Helper()
	c, err := open.open(t.Context(), address, k)
	require.NoError(t, err)
	Orders(holders, func(steps []int) {
		resource := strings.Join([]string{"order", string(k), session.Token(orders + 1).String()}, "-")
		orders++
		if loses(t, c, resource, steps, holders) {
			lost++
		}
	})
	return orders, lost
}

// loses reports whether an acknowledged update is lost when holders with the tokens 1, 2, …
// read and write in the order of the steps.
func loses(t testing.TB, c Client, resource string, steps []int, holders int) bool {
	t.Helper()
	read := make([]string, holders)
	turn := make([]int, holders)
	var acknowledged []session.Token
	for _, i := range steps {
		token := session.Token(i + 1)
		turn[i]++
		var err error
		switch turn[i] {
		case 1:
			read[i], err = c.Read(t.Context(), resource, token)
			if err != nil {
				turn[i]++ // the read was refused, so it writes nothing
			}
		case 2:
			err = c.Write(t.Context(), resource, token, with(read[i], token))
			if err == nil {
				acknowledged = append(acknowledged, token)
			}
		}
		if err != nil && !errors.Is(err, fence.ErrStale) {
			require.NoError(t, err, "order %v", steps)
		}
	}
	value, err := c.Read(t.Context(), resource, session.Token(holders+1))
	require.NoError(t, err)
	return missing(value, acknowledged) > 0
}

package redisstand

import (
	"bytes"
	"context"
	"net"
	"strconv"

	"github.com/fairlock/fairlock/bench/stand"
)

// The kinds of requests.
const (
	script    = iota // of ours: joins, leaves, updates, reads; of a peer: that deletes the key, or sets it
	set              // of a peer
	look             // of ours, at what is watched
	subscribe        // and UNSUBSCRIBE
	renewal          // all of the connection that renews a session
	anything         // else
)

func requestKinds() []string {
	return []string{"script", "set", "look", "subscribe", "renewal", "other"}
}

// The kinds that are sent when nothing has happened: watches are looked at again now and then, and a waiter
// of a peer tries again.
var (
	oursPeriodic  = []int{look, renewal}
	theirPeriodic = []int{script, set, subscribe, anything}
)

// dialer returns a function that connects to an address, and counts what is sent there.
func dialer(t *stand.Tally) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err //nolint:wrapcheck // the client does
		}
		return &counted{Conn: conn, tally: t}, nil
	}
}

// counted is a connection that counts the requests and the bytes on it. The client writes from one goroutine.
type counted struct {
	net.Conn

	tally   *stand.Tally
	written []byte // of a request that is not whole yet
	scripts int
	renews  bool // it is the connection that renews a session
}

// Read implements net.Conn.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.tally.Moved(n)
	return n, err //nolint:wrapcheck // the client does
}

// Write implements net.Conn.
func (c *counted) Write(b []byte) (int, error) {
	c.tally.Moved(len(b))
	c.written = append(c.written, b...)
	for {
		args, rest, whole := request(c.written)
		if !whole {
			break
		}
		c.written = rest
		kind, counts := c.kindOf(args)
		if counts {
			c.tally.Request(kind)
		}
	}
	return c.Conn.Write(b) //nolint:wrapcheck // the client does
}

// request splits the first request from what was written: an array of bulk strings.
func request(b []byte) (args [][]byte, rest []byte, whole bool) {
	n, rest, whole := number(b, '*')
	for range n {
		var size int
		size, rest, whole = number(rest, '$')
		if !whole || len(rest) < size+2 {
			return nil, nil, false
		}
		args, rest = append(args, rest[:size]), rest[size+2:]
	}
	return args, rest, whole
}

// number splits a line with a number from what was written.
func number(b []byte, kind byte) (n int, rest []byte, whole bool) {
	line, rest, whole := bytes.Cut(b, []byte("\r\n"))
	if !whole || len(line) == 0 || line[0] != kind {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil
}

// kindOf returns the kind of a request, and false for one that only makes the connection ready. The connection
// on which a session was opened, with a script whose first argument names a step of a quarantine, renews it.
// A look has two zeros where others name a session, or where others have a slot and a number.
func (c *counted) kindOf(args [][]byte) (kind int, counts bool) {
	arg := func(i int) string {
		if i < len(args) {
			return string(args[i])
		}
		return ""
	}
	switch string(bytes.ToUpper(args[0])) {
	case "EVALSHA", "EVAL":
		c.scripts++
		if c.scripts == 1 && (arg(4) == "look" || arg(4) == "claim") {
			c.renews = true
		}
		switch {
		case c.renews:
			return renewal, true
		case arg(5) == "0" && arg(6) == "0", arg(6) == "0" && arg(7) == "0":
			return look, true
		}
		return script, true
	case "SET":
		return set, true
	case "SUBSCRIBE", "UNSUBSCRIBE":
		return subscribe, true
	case "HELLO", "CLIENT", "SELECT":
		return 0, false
	}
	return anything, true
}

// Package fakeredis is a server for tests that speaks Redis' protocol and answers each command as the test
// wants. It works in virtual time: its connections are in memory.
package fakeredis

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/session/driver"
)

// Server is the server. Its fields must not change after the first connection.
type Server struct {
	// Answer returns the answer to a command: nil, an int, an int64, a string, a []any of these, or one of
	// the types below. It may wait, which delays what comes later on the connection. What a login and
	// subscriptions take is answered without it.
	Answer func(c *Conn, command []string) any

	// Refuses returns why no connection is made to an address; nil to make it.
	Refuses func(addr string) error

	mu    sync.Mutex
	conns []*Conn
}

// Error is an answer that is an error.
type Error string

// Silent is an answer that does not come: nor does any later one of the connection.
type Silent struct{}

// Break is the end of the connection instead of an answer.
type Break struct{}

// Conn is one connection of a client.
type Conn struct {
	Number int // from 1
	Addr   string

	conn    net.Conn
	writing sync.Mutex
	heard   []string // the subscriptions, each with its command; with writing
}

// Option returns what connects to the server, under some addresses.
func (s *Server) Option(addresses ...string) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: addresses,
		DialCtxFn: func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if s.Refuses != nil {
				if err := s.Refuses(addr); err != nil {
					return nil, err
				}
			}
			client, server := net.Pipe()
			s.mu.Lock()
			c := &Conn{Number: len(s.conns) + 1, Addr: addr, conn: server}
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			go s.serve(c) // ends with the connection
			return client, nil
		},
	}
}

// Logins returns the addresses of the connections so far.
func (s *Server) Logins() []string {
	var all []string
	for _, c := range s.all() {
		all = append(all, c.Addr)
	}
	return all
}

// Publish sends a message to the connections that have subscribed to its channel, and returns how many have.
func (s *Server) Publish(channel, payload string) int { return s.publish("", channel, payload) }

// PublishSharded is Publish for a sharded channel.
func (s *Server) PublishSharded(channel, payload string) int { return s.publish("s", channel, payload) }

func (s *Server) publish(kind, channel, payload string) int {
	n := 0
	for _, c := range s.all() {
		c.writing.Lock()
		if slices.Contains(c.heard, kind+"subscribe "+channel) {
			n++
			c.push(kind+"message", channel, payload)
		}
		c.writing.Unlock()
	}
	return n
}

// Cut ends all connections.
func (s *Server) Cut() {
	for _, c := range s.all() {
		_ = c.conn.Close() // the client sees it
	}
}

func (s *Server) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.conns)
}

func (s *Server) serve(c *Conn) {
	defer func() { _ = c.conn.Close() }() // the client may have
	for in := bufio.NewReader(c.conn); ; {
		command, err := read(in)
		if err != nil {
			return
		}
		var answer any
		word := strings.ToUpper(command[0])
		switch word {
		case "HELLO":
			answer = hello{}
		case "PING":
			answer = "PONG"
		case "SUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "SUNSUBSCRIBE":
			c.subscription(strings.ToLower(word), command[1:])
			continue
		default:
			answer = s.Answer(c, command)
		}
		switch answer.(type) {
		case Silent:
			_, _ = io.Copy(io.Discard, in) // until the client ends it
			return
		case Break:
			return
		}
		c.writing.Lock()
		_, err = c.conn.Write(encode(nil, answer))
		c.writing.Unlock()
		if err != nil {
			return
		}
	}
}

// subscription answers a command of subscriptions with a push for each channel.
func (c *Conn) subscription(word string, channels []string) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for _, channel := range channels {
		subscription := strings.Replace(word, "un", "", 1) + " " + channel
		c.heard = slices.DeleteFunc(c.heard, func(h string) bool { return h == subscription })
		if !strings.Contains(word, "un") {
			c.heard = append(c.heard, subscription)
		}
		c.push(word, channel, len(c.heard))
	}
}

// push sends what is no answer. With writing.
func (c *Conn) push(all ...any) {
	text := encode(nil, all)
	text[0] = '>'
	_, _ = c.conn.Write(text) // the client may have ended it
}

// read reads a command.
func read(in *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err //nolint:wrapcheck // it ends the connection
		}
		if line[0] != kind {
			return 0, fmt.Errorf("want %q: %q", kind, line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:])) //nolint:wrapcheck // the same
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err //nolint:wrapcheck // the same
		}
		command[i] = string(b[:size])
	}
	if n == 0 {
		return nil, errors.New("no command")
	}
	return command, nil
}

// hello is the answer to a login.
type hello struct{}

// encode appends an answer in the protocol.
func encode(to []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(to, "_\r\n"...)
	case hello:
		return append(to, "%2\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n"...)
	case int, int64:
		return fmt.Appendf(to, ":%d\r\n", v)
	case string:
		return fmt.Appendf(to, "$%d\r\n%s\r\n", len(v), v)
	case Error:
		return fmt.Appendf(to, "-%s\r\n", v)
	case []any:
		to = fmt.Appendf(to, "*%d\r\n", len(v))
		for _, x := range v {
			to = encode(to, x)
		}
		return to
	}
	panic(fmt.Sprintf("fakeredis: no answer is a %T", v))
}

// Reply returns what a client would receive as a list of values, without a server.
func Reply(values ...any) []rueidis.RedisMessage {
	const ttl = 7 // bytes before each message that is kept
	var m rueidis.RedisMessage
	if err := m.CacheUnmarshalView(kept(make([]byte, ttl), values)); err != nil {
		panic(err) // it is in the form that the version of the client in go.mod keeps
	}
	all, err := m.ToArray()
	if err != nil {
		panic(err) // it is one
	}
	return all
}

// kept appends a value in the form in which the client keeps messages.
func kept(to []byte, v any) []byte {
	head := func(kind byte, n int64) []byte {
		return binary.BigEndian.AppendUint64(append(to, kind), uint64(n)) //nolint:gosec // it is turned back
	}
	switch v := v.(type) {
	case nil:
		return head('_', 0)
	case int:
		return head(':', int64(v))
	case int64:
		return head(':', v)
	case string:
		return append(head('$', int64(len(v))), v...)
	case []any:
		to = head('*', int64(len(v)))
		for _, x := range v {
			to = kept(to, x)
		}
		return to
	}
	panic(fmt.Sprintf("fakeredis: no message is a %T", v))
}

// Clock is a clock of virtual time.
type Clock struct{ origin time.Time }

// NewClock returns a clock that shows some time of the past.
func NewClock() Clock { return Clock{time.Now().Add(-time.Hour)} }

// Now implements driver.Clock.
func (c Clock) Now() driver.Instant { return driver.Instant(time.Since(c.origin)) }

// AfterFunc implements driver.Clock.
func (Clock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Wall implements driver.Clock.
func (Clock) Wall() time.Time { return time.Now() }

// Package fakepg is a server for tests that speaks PostgreSQL's protocol and answers each
// statement as the test wants. It works in virtual time: its connections are in memory.
package fakepg

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fairlock/fairlock/session/driver"
)

// Server is the server. Its fields must not change after the first connection.
type Server struct {
	// Answer returns the answer to a statement. It may wait. The arguments are in the text format
	// of PostgreSQL.
	Answer func(c *Conn, sql string, args []string) Reply

	// Mute keeps the server from answering a login.
	Mute atomic.Bool

	// Cancels counts the requests to cancel a statement.
	Cancels atomic.Int64

	mu     sync.Mutex
	conns  []*Conn
	logins int
}

// Reply is the answer to one statement.
type Reply struct {
	Rows    [][]any // of bool, int, int64, string, []byte, or nil
	Columns int     // where there are no rows
	Tag     string  // of the command; "" for one that has the number of rows
	Code    string  // an SQLSTATE, if the statement fails
	Warning bool    // a warning comes before the end
	Late    string  // an SQLSTATE with which the transaction fails at its end
	Silent  bool    // no answer comes on this connection any more
	Break   bool    // the connection ends without an answer
}

// Rows returns the answer of one row.
func Rows(values ...any) Reply { return Reply{Rows: [][]any{values}} }

// Conn is one connection of a client.
type Conn struct {
	// Number counts the connections from 1. Pid is what pg_backend_pid returns; the client was given
	// it at login, unless the server pretends to be behind a pooler.
	Number int
	Pid    uint32

	server  net.Conn
	backend *pgproto3.Backend
	writing sync.Mutex
}

// Config returns what connects to the server.
func (s *Server) Config() *pgx.ConnConfig {
	c, err := pgx.ParseConfig("postgres://user@fake:5432/database?sslmode=disable")
	if err != nil {
		panic(err) // it is a constant
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go s.serve(server) // ends with the connection
		return client, nil
	}
	return c
}

// Logins returns how many connections there have been.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Notify sends a notification to all connections, as if each listened. A client receives it when it
// reads next.
func (s *Server) Notify(channel, payload string) {
	for _, c := range s.all() {
		go c.send(&pgproto3.NotificationResponse{PID: c.Pid, Channel: channel, Payload: payload}) // ends with the connection
	}
}

// Cut ends all connections.
func (s *Server) Cut() {
	for _, c := range s.all() {
		_ = c.server.Close() // the client sees it
	}
}

func (s *Server) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Conn(nil), s.conns...)
}

func (s *Server) serve(nc net.Conn) {
	defer func() { _ = nc.Close() }() // the client may have
	c := &Conn{server: nc, backend: pgproto3.NewBackend(nc, nc)}
	start, err := c.backend.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if _, ok := start.(*pgproto3.StartupMessage); !ok {
		s.Cancels.Add(1)
		return
	}
	s.mu.Lock()
	s.logins++
	c.Number = s.logins
	c.Pid = uint32(s.logins) //nolint:gosec // a test has few
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	if s.Mute.Load() {
		c.silence()
		return
	}
	c.send(&pgproto3.AuthenticationOk{}, &pgproto3.BackendKeyData{ProcessID: c.Pid, SecretKey: []byte{1, 2, 3, 4}}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	for c.request(s.Answer) {
	}
}

func (c *Conn) send(all ...pgproto3.BackendMessage) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for _, m := range all {
		c.backend.Send(m)
	}
	_ = c.backend.Flush() // a client that is gone reads nothing
}

// silence reads until the client gives the connection up.
func (c *Conn) silence() {
	for {
		m, err := c.backend.Receive()
		if _, ends := m.(*pgproto3.Terminate); ends || err != nil {
			return
		}
	}
}

// exchange is what a client sends up to the end of a transaction, and the answers.
type exchange struct {
	sql    string
	out    []pgproto3.BackendMessage
	failed bool
	late   string // see Reply.Late
}

// run answers a statement, and reports whether the connection goes on.
func (x *exchange) run(c *Conn, answer func(*Conn, string, []string) Reply, args []string, extended bool) bool {
	r := answer(c, x.sql, args)
	switch {
	case r.Silent:
		c.silence()
		return false
	case r.Break:
		return false
	}
	if r.Late != "" {
		x.late = r.Late
	}
	if r.Warning {
		x.out = append(x.out, &pgproto3.NoticeResponse{Severity: "WARNING", Code: "01000", Message: "a warning"})
	}
	if r.Code != "" {
		x.failed = true
		x.out = append(x.out, failure(r.Code))
		return true
	}
	x.out = append(x.out, r.messages(extended)...)
	return true
}

// end sends the answers.
func (x *exchange) end(c *Conn) {
	if x.late != "" && !x.failed {
		x.out = append(x.out, failure(x.late))
	}
	c.send(append(x.out, &pgproto3.ReadyForQuery{TxStatus: 'I'})...)
}

// request answers all up to the end of a transaction, and reports whether the connection goes on.
func (c *Conn) request(answer func(*Conn, string, []string) Reply) bool {
	var x exchange
	for {
		m, err := c.backend.Receive()
		if err != nil {
			return false
		}
		switch m := m.(type) {
		case *pgproto3.Terminate:
			return false
		case *pgproto3.Query:
			x.sql = m.String
			if !x.run(c, answer, nil, false) {
				return false
			}
			x.end(c)
			return true
		case *pgproto3.Sync:
			x.end(c)
			return true
		case *pgproto3.Parse:
			x.sql = m.Query
			if !x.failed {
				x.out = append(x.out, &pgproto3.ParseComplete{})
			}
		case *pgproto3.Bind:
			if x.failed {
				continue
			}
			x.out = append(x.out, &pgproto3.BindComplete{})
			if !x.run(c, answer, texts(m.Parameters), true) {
				return false
			}
		default: // Describe and Execute were answered with Bind
		}
	}
}

func failure(code string) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: "failure " + code}
}

func texts(parameters [][]byte) []string {
	all := make([]string, len(parameters))
	for i, p := range parameters {
		all[i] = string(p)
	}
	return all
}

// messages returns the answer to a statement that succeeds. The extended protocol also describes that
// there are no rows.
func (r Reply) messages(extended bool) []pgproto3.BackendMessage {
	var all []pgproto3.BackendMessage
	width := r.Columns
	if len(r.Rows) > 0 {
		width = len(r.Rows[0])
	}
	fields := make([]pgproto3.FieldDescription, width)
	for i := range fields {
		fields[i] = pgproto3.FieldDescription{Name: []byte("column" + strconv.Itoa(i)), DataTypeOID: r.typeOf(i), DataTypeSize: -1, TypeModifier: -1}
	}
	switch {
	case width > 0:
		all = append(all, &pgproto3.RowDescription{Fields: fields})
	case extended:
		all = append(all, &pgproto3.NoData{})
	}
	for _, row := range r.Rows {
		values := make([][]byte, len(row))
		for i, v := range row {
			values[i] = text(v)
		}
		all = append(all, &pgproto3.DataRow{Values: values})
	}
	tag := r.Tag
	if tag == "" {
		tag = fmt.Sprintf("SELECT %d", len(r.Rows))
	}
	return append(all, &pgproto3.CommandComplete{CommandTag: []byte(tag)})
}

func (r Reply) typeOf(column int) uint32 {
	for _, row := range r.Rows {
		switch row[column].(type) {
		case nil:
		case bool:
			return pgtype.BoolOID
		case int, int64:
			return pgtype.Int8OID
		case []byte:
			return pgtype.ByteaOID
		default:
			return pgtype.TextOID
		}
	}
	return pgtype.Int8OID
}

func text(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case bool:
		return []byte(strconv.FormatBool(v)[:1])
	case []byte:
		return []byte(`\x` + hex.EncodeToString(v))
	}
	return fmt.Append([]byte{}, v)
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

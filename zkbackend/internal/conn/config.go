package conn

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Config is what a Session is opened with. It is not checked.
type Config struct {
	// Servers are the addresses, "host:port" each.
	Servers []string

	// Dial makes connections, and gets the addresses as they are in Servers. It returns when its context
	// ends. Nil means net.Dialer; then each address of a host is tried on its own.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// TLS turns on TLS. It is called for each connection. Without a ServerName the connection verifies the
	// host in Servers. Nil means no TLS.
	TLS func() *tls.Config

	// Auth are the logins, which are sent on every connection before anything else. It is a function
	// because package fmt would print the credentials of a field. Nil means none.
	Auth func() []Auth

	// TTL is the session timeout that is requested. The servers may grant another: see Session.TTL.
	TTL time.Duration

	// Margin is how long before the end of a TTL the deadline is. Open refuses a TTL of which renewals
	// would leave less than a quarter.
	Margin func(ttl time.Duration) time.Duration

	// Proof is which answers are renewals. TickTime is the servers' tickTime; the pace of heartbeats
	// depends on it in an ensemble.
	Proof    Proof
	TickTime time.Duration

	// Renewed is called when an answer proves that the service had the session: with the time at which
	// the request for it was sent, with the session's TTL, and with how long after that time the next proof
	// comes, at most, on a fast network. It may be called from any goroutine and
	// before Open returns, and must not block.
	Renewed func(sent driver.Instant, ttl, lag time.Duration)

	// Gone is called once when the session expired, an operator ended it, or its renewals prove nothing
	// any more, unless Abandon or Close was called before. It may be called from any goroutine, and must
	// not block.
	Gone func(err error)

	// Observer asks for a session without ephemeral nodes. TTL, Margin, Proof, Renewed and Gone are not
	// used. When it expires, or has no connection for its TTL, the Session goes on with a new one.
	Observer bool

	Logger *slog.Logger
	Clock  driver.Clock
}

// Auth is a login.
type Auth struct {
	Scheme      string
	Credentials []byte
}

// Proof is which answers prove that the service has the session. The reasons are in heart.go.
type Proof int

// The proofs.
const (
	ProofAuto   Proof = iota // ProofPing if the only server reports that it is standalone, and else ProofSync
	ProofPing                // any answer to a heartbeat; on an ensemble this is unsafe
	ProofSync                // answers to Sync, which come from the leader
	ProofQuorum              // answers to writes that change nothing
)

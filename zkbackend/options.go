package zkbackend

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/credential"
	"github.com/fairlock/fairlock/session"
)

// DefaultRoot is the path of the queues unless Options.Root is set.
const DefaultRoot = "/fairlock"

// maxRoot keeps the path of an entry well below the longest that a server accepts.
const maxRoot = 512

// maxTTL is the longest session timeout of the protocol, which has 32 bits for the milliseconds.
const maxTTL = math.MaxInt32 * time.Millisecond

// defaultTick is the default tickTime of a server.
const defaultTick = 2 * time.Second

// Layout is how entries are named. All programs that share a lock must use the same
// layout.
type Layout int

const (
	// LayoutCurator names entries "<16 hex>x-lock-<sequence>" and shares the queue with
	// Curator's InterProcessMutex and with go-zookeeper's zk.Lock on the same path. It
	// is the default.
	LayoutCurator Layout = iota

	// LayoutKazoo names entries "<16 hex>x__lock__<sequence>" and shares the queue with
	// Kazoo's Lock. go-zookeeper's zk.Lock waits behind entries of this layout, but
	// stock Kazoo does not wait behind those of zk.Lock.
	LayoutKazoo
)

func (l Layout) valid() bool { return l == LayoutCurator || l == LayoutKazoo }

// String returns the layout's name.
func (l Layout) String() string {
	if !l.valid() {
		return fmt.Sprintf("Layout(%d)", int(l))
	}
	return [...]string{"curator", "kazoo"}[l]
}

// Proof is which acknowledged request proves that the service still has the session;
// see the package's documentation on the deadline.
type Proof int

const (
	// ProofAuto counts answers to a heartbeat, a Sync, in which the leader takes part. It
	// is the default. If one server is configured, and that server reports that it is
	// standalone, each answer proves the time of its own heartbeat; in an ensemble it
	// proves that of the heartbeat two before. A session asks the server again on every
	// new connection, and ends if the server belongs to an ensemble by then.
	ProofAuto Proof = iota

	// ProofQuorum counts answers to writes (a transaction that checks and changes
	// nothing), which a majority has acknowledged. So it also detects a deposed leader
	// that has not yet noticed. Each costs the ensemble a commit.
	ProofQuorum
)

func (p Proof) valid() bool { return p == ProofAuto || p == ProofQuorum }

// String returns the proof's name.
func (p Proof) String() string {
	if !p.valid() {
		return fmt.Sprintf("Proof(%d)", int(p))
	}
	return [...]string{"auto", "quorum"}[p]
}

// Auth is a login of a session, which it sends on every connection.
type Auth struct {
	Scheme      string // "digest", or another scheme of the servers
	Credentials []byte // for "digest": user:password

	// PasswordFile is a file whose content, without a newline at its end, follows
	// Credentials. It is read again for each connection: see DigestFileAuth.
	PasswordFile string
}

// DigestAuth returns the login of a user with a password. ZooKeeper does not check it
// against a list of users: a wrong password is a different identity, to which the ACLs
// grant nothing.
func DigestAuth(user, password string) Auth {
	return Auth{Scheme: "digest", Credentials: []byte(user + ":" + password)}
}

// DigestFileAuth returns the login of a user whose password is in a file, which contains nothing
// else. To ZooKeeper another password is another identity, and no server refuses the old one. So a
// session that has begun with a password keeps it, and its next connection logs in with the file's
// new one too: it loses nothing, and has access to what either identity has. The sessions that begin
// later know only the new one. While the file is missing or half written, its last good content is
// used, and a warning is logged.
func DigestFileAuth(user, file string) Auth {
	return Auth{Scheme: "digest", Credentials: []byte(user + ":"), PasswordFile: file}
}

// String returns the scheme without the credentials.
func (a Auth) String() string { return a.Scheme + ":(hidden)" }

// GoString returns the same as String.
func (a Auth) GoString() string { return a.String() }

// MarshalJSON returns String as JSON: package log/slog encodes its values as JSON.
func (a Auth) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// Options are the options of Open and NewBackend. The zero value is ready to use.
type Options struct {
	// Session has the options of all backends: TTL, margin, label, hooks and logger.
	// The TTL is the requested ZooKeeper session timeout. By default a server grants
	// between 2 and 20 ticks. The granted timeout counts, and the log shows it if it
	// differs.
	Session session.Options

	// Root is the path of the queues; "" means DefaultRoot, and "/" the whole tree. It
	// begins with "/", does not end with it, and has at most 512 bytes. Missing nodes
	// of it are created with the first lock. A root that looks like the rest of an address
	// ("/prod,b:2181/prod", "/prod?label=x") is refused.
	//
	// A name is a path below the root, so roots can meet: the lock "team/x" of the root
	// "/locks" and the lock "x" of the root "/locks/team" are the same queue. Their
	// limits, ledgers and other records are kept apart, below each root. Programs that
	// must share nothing need roots of which none is below another.
	Root string

	// Layout is how entries are named. 0 means LayoutCurator.
	Layout Layout

	// Proof is which acknowledged request renews the session. 0 means ProofAuto.
	Proof Proof

	// TickTime is the servers' tickTime; 0 means their default of 2 s. In an ensemble,
	// and with ProofQuorum, heartbeats are at least 1.25 ticks apart and the trust window
	// begins two before the newest, so a TTL below about six ticks is refused: set
	// TickTime if your servers have a smaller one. It must never be below the servers'
	// own: then a renewal proves nothing, two clients can hold at once, and no error
	// shows it. The client cannot read the servers' value.
	TickTime time.Duration

	// TLS turns on TLS with this configuration. If it has no ServerName, each
	// connection verifies the host that it dialled. It is used as it is: to show another
	// certificate later it needs GetClientCertificate, and it always trusts the same
	// authorities.
	TLS *tls.Config

	// CAFile, CertFile and KeyFile can be named instead of TLS: the authorities that sign
	// the servers' certificates (if empty, the system's), and the client's certificate,
	// both or none. All are PEM. ServerName is the name in the servers' certificates; ""
	// means the host that was dialled. Any of them turns TLS on. The files are read again
	// for each connection, so they may be replaced at any time. While one is missing or
	// half written, its last good content is used, and a warning is logged.
	CAFile, CertFile, KeyFile, ServerName string

	// Auth are the logins, sent on every connection.
	Auth []Auth

	// ACL is the access control list of new folders, and of entries, except that only
	// the session itself may write its entries. Nil means that every client may do
	// everything, which is Curator's default. The scheme "auth" stands for the logins
	// by password in Auth. With TLS, logins of other kinds, or servers that compute
	// digests by another algorithm than SHA1, the servers resolve it, and then each
	// hand-off reads the queue.
	ACL []zk.ACL

	// Dial makes connections. Nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// checked returns a copy with the defaults filled in, or what is wrong. Package session
// checks its part, before anything is sent too.
func (o *Options) checked() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Root == "" {
		c.Root = DefaultRoot
	}
	if c.TickTime == 0 {
		c.TickTime = defaultTick
	}
	if c.ACL == nil {
		c.ACL = zk.WorldACL(zk.PermAll)
	}
	c.Auth = slices.Clone(c.Auth)
	if err := c.wrong(); err != nil {
		return c, fmt.Errorf("%w: %w", session.ErrInvalidOptions, err)
	}
	return c, nil
}

// wrong returns what is wrong with complete options, or nil.
func (o *Options) wrong() error {
	switch {
	case len(o.Root) > maxRoot:
		return fmt.Errorf("the Root has %d bytes, at most %d are allowed", len(o.Root), maxRoot)
	case !strings.HasPrefix(o.Root, "/"):
		return fmt.Errorf("the Root %q does not begin with a slash", o.Root)
	case o.Root != "/" && address.CheckPath(o.Root[1:]) != nil:
		return fmt.Errorf("the Root %q %w", o.Root, address.CheckPath(o.Root[1:]))
	case o.Root != "/" && checkPath(o.Root) != nil:
		return fmt.Errorf("the Root %q is no path: %w", o.Root, checkPath(o.Root))
	case !o.Layout.valid():
		return fmt.Errorf("there is no %s", o.Layout)
	case !o.Proof.valid():
		return fmt.Errorf("there is no %s", o.Proof)
	case o.Session.TTL > maxTTL:
		return fmt.Errorf("the TTL is %v, at most %v can be asked for", o.Session.TTL, maxTTL)
	case o.TickTime < time.Millisecond:
		return fmt.Errorf("the TickTime is %v, at least 1ms is needed", o.TickTime)
	case o.TLS != nil && o.files().Any():
		return errors.New("TLS and files for it exclude each other")
	case len(o.ACL) == 0:
		return errors.New("the ACL is empty, so no client could read an entry; use nil for the default")
	}
	for _, a := range o.Auth {
		if a.Scheme == "" {
			return errors.New("an Auth has no Scheme")
		}
	}
	return nil
}

// files returns the files for TLS.
func (o *Options) files() credential.Files {
	return credential.Files{CA: o.CAFile, Cert: o.CertFile, Key: o.KeyFile, ServerName: o.ServerName}
}

// checkServers returns the servers with their ports, or what is wrong.
func checkServers(servers []string) ([]string, error) {
	all, err := address.Servers(servers, address.ZooKeeperPort)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrInvalidOptions, err)
	}
	return all, nil
}

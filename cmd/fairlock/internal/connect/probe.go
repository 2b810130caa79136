package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/stores"
)

// probeTimeout bounds a probe, which only finds the reason for an error. A server that closes a connection does that
// within closesWithin.
const (
	probeTimeout = time.Second
	closesWithin = probeTimeout / 4
)

// unreachable returns which service could not be reached, after how long, why, and what
// to check. The clients' own errors differ, and not all have the reason, so it dials
// every server once more.
func (t *Target) unreachable(ctx context.Context) string {
	cfg, err := t.TLS()
	if err != nil {
		cfg = nil // the files were read before, so they have just been removed
	}
	reasons := make([]string, len(t.Address.Hosts))
	var all sync.WaitGroup
	for i, host := range t.Address.Hosts {
		all.Go(func() { reasons[i] = Probe(ctx, host, cfg) })
	}
	all.Wait()
	return fmt.Sprintf("cannot reach %s within %s: %s: check %s", t.Address, t.Within(), join(t.Address.Hosts, reasons), t.check(reasons))
}

// Within returns the timeout for the service to answer.
func (t *Target) Within() time.Duration {
	return cmp.Or(t.Options.Timeout, t.Address.Timeout, stores.DefaultTimeout)
}

// The reasons that a probe can find; any other reason is the text of an error.
const (
	answersNot = "it takes connections and does not answer"
	closes     = "it takes connections and closes them at once"
	closesTLS  = "it closes connections in the TLS handshake"
	refused    = "connection refused"
	noHost     = "no such host"
	silent     = "no answer"
)

// check returns what the user should check first.
func (t *Target) check(reasons []string) string {
	seen := func(one ...string) bool {
		return slices.ContainsFunc(reasons, func(r string) bool { return slices.Contains(one, r) })
	}
	if !seen(answersNot, closes, closesTLS) {
		return t.From + ", the network, and whether the servers run"
	}
	limit := ""
	if seen(closes, closesTLS) && t.Address.Service == address.ZooKeeper {
		limit = ", and how many connections from here they allow (maxClientCnxns)"
	}
	if t.secure() {
		return "the port in " + t.From + ", and whether the servers speak TLS there and have a quorum" + limit
	}
	return "the port in " + t.From + ", whether TLS is wanted there (" + t.Address.Service + "s://), and whether the servers have a quorum" + limit
}

// Probe returns what is wrong with a server that does not answer as it should: whether
// it accepts a connection and keeps it, and, with a cfg, completes a TLS handshake. It takes
// at most probeTimeout.
func Probe(ctx context.Context, host string, cfg *tls.Config) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return reason(err)
	}
	defer func() { _ = conn.Close() }()
	if cfg == nil {
		err = conn.SetReadDeadline(time.Now().Add(closesWithin))
		if err != nil {
			return reason(err)
		}
		_, err = conn.Read(make([]byte, 1))
		if isClosed(err) {
			return closes
		}
		return answersNot
	}
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(host)
	}
	err = tls.Client(conn, cfg).HandshakeContext(ctx)
	switch {
	case isClosed(err):
		return closesTLS
	case err != nil && !isTimeout(err):
		return err.Error()
	}
	return answersNot
}

// isClosed reports whether the server has closed the connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

func reason(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return noHost
	case strings.Contains(err.Error(), "refused"):
		return refused
	case isTimeout(err):
		return silent
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Timeout()
}

// join names the servers only if the reasons differ.
func join(hosts, reasons []string) string {
	if len(slices.Compact(slices.Clone(reasons))) == 1 {
		return reasons[0]
	}
	each := make([]string, len(hosts))
	for i := range hosts {
		each[i] = hosts[i] + ": " + reasons[i]
	}
	return strings.Join(each, ", ")
}

// secure reports whether TLS is used.
func (t *Target) secure() bool {
	return t.Address.TLS() || t.Options.CAFile != "" || t.Options.CertFile != "" || t.Options.KeyFile != ""
}

// TLS returns the TLS configuration, nil without TLS. It reads the files each time.
func (t *Target) TLS() (*tls.Config, error) {
	a := *t.Address
	a.CAFile = cmp.Or(t.Options.CAFile, a.CAFile)
	if t.Options.CertFile != "" || t.Options.KeyFile != "" {
		a.CertFile, a.KeyFile = t.Options.CertFile, t.Options.KeyFile
	}
	return a.TLSConfig()
}

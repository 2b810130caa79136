package onzk

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/zktest"
)

// The transports: how the members serve clients.
const (
	NIO   = "NIO"   // through Java's own sockets, as by default
	Netty = "Netty" // through Netty, in the clear
	TLS   = "TLS"   // through Netty, which TLS needs; clients show a certificate
)

// Transports returns all transports, the default first.
func Transports() []string { return []string{NIO, Netty, TLS} }

// endpoints is how clients reach the members, past the proxies of the ensemble. Client
// processes get it as JSON.
type endpoints struct {
	Addrs         []string // by member
	CA, Cert, Key string   // PEM files of one identity for all clients; "" without TLS

	tls     *tls.Config            // from the files, see load; nil without TLS
	resumed map[string]*tls.Config // the same by address, see dial
}

// endpointsOf returns the endpoints of an ensemble.
func endpointsOf(e *zktest.Ensemble) (*endpoints, error) {
	all := &endpoints{}
	for i := range e.Len() {
		all.Addrs = append(all.Addrs, e.Member(i).Direct())
	}
	ca := e.CA()
	if ca != nil {
		var err error
		all.CA = ca.File()
		all.Cert, all.Key, err = ca.Issue("robustness")
		if err != nil {
			return nil, err
		}
	}
	return all, all.load()
}

// load reads the files. A terminator is a server with the same certificate.
func (e *endpoints) load() error {
	if e.CA == "" {
		return nil
	}
	var err error
	e.tls, err = (&address.Address{CAFile: e.CA, CertFile: e.Cert, KeyFile: e.Key}).TLSConfig()
	if err != nil {
		return fmt.Errorf("onzk: %w", err)
	}
	e.tls.ClientAuth, e.tls.ClientCAs = tls.RequireAndVerifyClientCert, e.tls.RootCAs
	e.resumed = map[string]*tls.Config{}
	for _, addr := range e.Addrs {
		e.resumed[addr] = e.tls.Clone()
		e.resumed[addr].ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return nil
}

// dial connects to a member, with TLS if it requires that. It resumes TLS sessions: a full
// handshake costs a Java that has just started 9 ms of a core, and the harness makes many.
func (e *endpoints) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if e.tls == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return (&tls.Dialer{Config: e.resumed[address]}).DialContext(ctx, network, address)
}

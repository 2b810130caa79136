// Package member describes the configuration of one member of a test cluster,
// the same for one embedded in the test and for one in a process of its own.
package member

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Spec describes a member. It is sent to a member process as JSON.
type Spec struct {
	Name    string
	Dir     string
	Cluster string // every "name=peerURL", separated by commas
	Join    bool   // the cluster runs already
	Token   string // distinguishes this cluster from earlier ones on the same ports

	ListenPeer, ListenClient       string // URLs to listen on
	AdvertisePeer, AdvertiseClient string // URLs for others

	Tick, Election time.Duration
	Fsync          bool
	QuotaBytes     int64

	ClientTLS TLS // for https client URLs; clients must show a certificate
	PeerTLS   TLS // for https peer URLs
}

// TLS names the files of a certificate.
type TLS struct{ CA, Cert, Key string }

// Config returns the spec as etcd's configuration, for a member with this log.
func (s *Spec) Config(log *Log) (*embed.Config, error) {
	cfg := embed.NewConfig()
	cfg.Name = s.Name
	cfg.Dir = s.Dir
	cfg.InitialCluster = s.Cluster
	cfg.InitialClusterToken = s.Token
	if s.Join {
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	cfg.TickMs = uint(s.Tick.Milliseconds())
	cfg.ElectionMs = uint(s.Election.Milliseconds())
	cfg.UnsafeNoFsync = !s.Fsync
	cfg.QuotaBackendBytes = s.QuotaBytes
	cfg.EnableGRPCGateway = false
	cfg.BcryptCost = 4 // the least: no attacker tries these passwords
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.logger)

	for _, to := range []struct {
		url  string
		urls *[]url.URL
	}{
		{s.ListenPeer, &cfg.ListenPeerUrls},
		{s.ListenClient, &cfg.ListenClientUrls},
		{s.AdvertisePeer, &cfg.AdvertisePeerUrls},
		{s.AdvertiseClient, &cfg.AdvertiseClientUrls},
	} {
		u, err := url.Parse(to.url)
		if err != nil {
			return nil, fmt.Errorf("etcdtest: member %q: %w", s.Name, err)
		}
		*to.urls = []url.URL{*u}
	}

	cfg.ClientTLSInfo.CertFile = s.ClientTLS.Cert
	cfg.ClientTLSInfo.KeyFile = s.ClientTLS.Key
	cfg.ClientTLSInfo.TrustedCAFile = s.ClientTLS.CA
	cfg.ClientTLSInfo.ClientCertAuth = s.ClientTLS.CA != ""
	cfg.PeerTLSInfo.CertFile = s.PeerTLS.Cert
	cfg.PeerTLSInfo.KeyFile = s.PeerTLS.Key
	cfg.PeerTLSInfo.TrustedCAFile = s.PeerTLS.CA
	// All members reach a member at one address, and only their streams name
	// the sender; lease renewals that a follower forwards do not. So as TLS
	// server name, each member sends its own name instead of its peer's. The
	// proxy reads it from the handshake of every connection, and the
	// certificate is valid for all names.
	cfg.PeerTLSInfo.ServerName = s.Name
	return cfg, nil
}

// Log is what a member logs: how it starts, and later only why it stops its process.
type Log struct {
	logger *zap.Logger
	level  zap.AtomicLevel
}

// NewLog returns a log that writes how the member starts to start, and why it stops its
// process to standard error.
func NewLog(start io.Writer) *Log {
	l := &Log{level: zap.NewAtomicLevelAt(zap.InfoLevel)}
	encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	l.logger = zap.New(zapcore.NewTee(
		zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(start)), l.level),
		zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), zap.DPanicLevel),
	))
	return l
}

// Started ends the log of the start.
func (l *Log) Started() { l.level.SetLevel(zap.FatalLevel + 1) }

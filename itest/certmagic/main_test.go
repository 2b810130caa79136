// Package certmagic tests the adapter for certmagic with processes that obtain certificates
// from an ACME server, Pebble, and with their locks on each service.
package certmagic

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	faircertmagic "github.com/fairlock/fairlock/adapters/certmagic"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

// env makes a test binary a replica; its value is a job.
const env = "FAIRLOCK_ITEST_REPLICA"

func TestMain(m *testing.M) {
	process.Child(env, replica)
	for name, value := range map[string]string{
		"PEBBLE_VA_NOSLEEP":      "1",   // it validates at once
		"PEBBLE_WFE_NONCEREJECT": "0",   // no request is repeated, so requests can be counted
		"PEBBLE_AUTHZREUSE":      "100", // a second order needs no challenge
	} {
		if err := os.Setenv(name, value); err != nil {
			log.Fatal(err)
		}
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/letsencrypt/pebble/v2/va.VAImpl.processTasks")) // it has no end
}

// subject is the name of the certificate. The authority validates it at Job.Port.
const subject = "127.0.0.1"

// job describes a replica.
type job struct {
	URL       string // of the service with the locks
	TTL       time.Duration
	Assets    string // the folder of the assets
	Directory string // of the authority
	Roots     []byte // of the authority's own certificate
	Port      int    // where some process answers the challenges that are in the assets
	Stops     bool   // it stops before its order, waits for a line, and goes on when its lock is lost
}

// report is a line that a replica writes when it is ready, when it stops, and when its obtain
// has ended.
type report struct {
	Serial string // of the certificate that it has now
	Err    string
}

// config returns the certmagic of a process with a storage.
func (j *job) config(storage certmagic.Storage) (cfg *certmagic.Config, stop func(), err error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(j.Roots) {
		return nil, nil, errors.New("no roots")
	}
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil }, Logger: zap.NewNop(),
	})
	cfg = certmagic.New(cache, certmagic.Config{
		Storage: storage, Logger: zap.NewNop(), OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	cfg.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(cfg, certmagic.ACMEIssuer{
		CA: j.Directory, TrustedRoots: roots, Agreed: true, Email: "operator@example.com", // it asks standard input otherwise
		DisableTLSALPNChallenge: true, ListenHost: subject, AltHTTPPort: j.Port, Logger: zap.NewNop(),
	})}
	return cfg, cache.Stop, nil
}

// storage returns the storage of a process.
func (j *job) storage(s *session.Session) *faircertmagic.Storage {
	return faircertmagic.NewStorage(&certmagic.FileStorage{Path: j.Assets}, func(name string) *mutex.Mutex {
		return mutex.New(s, "certs/"+name)
	})
}

// replica is the main function of a replica. When it is ready, it waits for a line, and obtains.
func replica(text string) error {
	ctx := context.Background()
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	s, err := stores.Open(ctx, j.URL, &stores.Options{Timeout: hang.Guard, Session: session.Options{TTL: j.TTL}})
	if err != nil {
		return err
	}
	storage := j.storage(s)
	cfg, stop, err := j.config(storage)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	defer stop()
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	cfg.OnEvent = func(ctx context.Context, event string, _ map[string]any) error {
		if !j.Stops || event != "cert_obtaining" {
			return nil
		}
		if err := errors.Join(out.Encode(report{}), in.Decode(new(bool))); err != nil {
			return err
		}
		for storage.RenewLockLease(ctx, lockName, time.Minute) == nil { // the loss is not known yet
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	}
	if err := errors.Join(out.Encode(report{}), in.Decode(new(bool))); err != nil {
		return errors.Join(err, s.Close())
	}
	var r report
	err = cfg.ObtainCertSync(ctx, subject)
	if err == nil {
		r.Serial, err = cached(ctx, cfg)
	}
	if err != nil {
		r.Err = err.Error()
	}
	err = out.Encode(r)
	if in.Decode(new(bool)) != io.EOF {
		err = errors.Join(err, errors.New("the input has not ended"))
	}
	return errors.Join(err, s.Close())
}

// cached loads the certificate from the storage, and returns its serial number.
func cached(ctx context.Context, cfg *certmagic.Config) (string, error) {
	cert, err := cfg.CacheManagedCertificate(ctx, subject)
	if err != nil {
		return "", err
	}
	return cert.Leaf.SerialNumber.String(), nil
}

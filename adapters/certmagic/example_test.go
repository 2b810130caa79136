package faircertmagic_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	faircertmagic "github.com/fairlock/fairlock/adapters/certmagic"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// process returns what one process has of certmagic. stop ends it.
func process(s *session.Session, shared string, issuer certmagic.Issuer) (cfg *certmagic.Config, stop func()) {
	storage := faircertmagic.NewStorage(&certmagic.FileStorage{Path: shared}, func(name string) *mutex.Mutex {
		return mutex.New(s, "certs/"+name)
	})
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil },
		Logger:           zap.NewNop(),
	})
	cfg = certmagic.New(cache, certmagic.Config{
		Storage: storage,
		Issuers: []certmagic.Issuer{issuer}, // in production a certmagic.NewACMEIssuer
		Logger:  zap.NewNop(),
	})
	return cfg, cache.Stop
}

// obtain obtains a certificate unless another process has done so. An order that is under way
// ends when the lock is lost.
func obtain(ctx context.Context, s *session.Session, cfg *certmagic.Config, domain string) error {
	err := mutex.New(s, "obtain/"+domain).Do(ctx, func(ctx context.Context, _ *session.Hold) error {
		return cfg.ObtainCertSync(ctx, domain) // does nothing if the certificate is stored
	})
	if err != nil {
		return err
	}
	_, err = cfg.CacheManagedCertificate(ctx, domain)
	return err
}

// Three processes need the same certificate, and share a storage.
func ExampleNewStorage() {
	ctx := context.Background()
	shared, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(shared) }()
	store, authority := membackend.New(), newAuthority()
	results := make(chan error)
	for range 3 { // in production each is a process
		go func() {
			s, err := store.Open(ctx, nil)
			if err != nil {
				log.Fatal(err)
			}
			defer s.Close()
			cfg, stop := process(s, shared, issuer{authority, nothing})
			defer stop()
			results <- obtain(ctx, s, cfg, "example.com")
		}()
	}
	for range 3 {
		if err := <-results; err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("certificates issued:", authority.issued.Load())
	// Output: certificates issued: 1
}

package zkbackend_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// These examples need a ZooKeeper, so they are compiled and not run.
func ExampleOpen() {
	ctx := context.Background()
	s, err := zkbackend.Open(ctx, []string{"zk-1:2181", "zk-2:2181", "zk-3:2181"}, &zkbackend.Options{
		Session: session.Options{TTL: 15 * time.Second, Label: "settlement"},
		Root:    "/prod/locks",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = mutex.New(s, "orders/settle").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		fmt.Println("token", h.Token())
		return ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
}

// With TLS, a login, and nodes that only this user may touch.
func ExampleOpen_secure() {
	cert, err := tls.LoadX509KeyPair("client.pem", "client-key.pem")
	if err != nil {
		log.Fatal(err)
	}
	s, err := zkbackend.Open(context.Background(), []string{"zk-1:2281"}, &zkbackend.Options{
		TLS:  &tls.Config{Certificates: []tls.Certificate{cert}},
		Auth: []zkbackend.Auth{zkbackend.DigestAuth("locks", "from a secret store")},
		ACL:  zk.AuthACL(zk.PermAll),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

// Certificate, key and password are in files, which are read again for each connection: they
// can be replaced while locks are held.
func ExampleDigestFileAuth() {
	s, err := zkbackend.Open(context.Background(), []string{"zk-1:2281"}, &zkbackend.Options{
		CertFile: "client.pem", KeyFile: "client-key.pem", CAFile: "ca.pem",
		Auth: []zkbackend.Auth{zkbackend.DigestFileAuth("locks", "/run/secrets/locks")},
		ACL:  zk.AuthACL(zk.PermAll),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

// A write to the same ensemble that happens only while the lock is held: no
// pause of this process can come between the check and the write.
func ExampleGuard() {
	var (
		h    *session.Hold // from Lock
		conn *zk.Conn      // of the program
	)
	ops := []any{&zk.SetDataRequest{Path: "/orders/last", Data: []byte("4711"), Version: -1}}
	for _, check := range zkbackend.Guard(h) {
		ops = append(ops, check)
	}
	if _, err := conn.Multi(ops...); errors.Is(err, zk.ErrNoNode) {
		log.Print("the lock is lost, nothing was written")
	}
}

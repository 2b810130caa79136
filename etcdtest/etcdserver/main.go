// Command etcdserver runs one etcd member for package etcdtest, in a process of
// its own that can be killed and stopped. It has no other use.
//
// It reads its configuration from standard input. It writes "serving" to standard
// output when it answers its peers, and "ready" when it has joined the cluster.
// It exits when its standard input ends: the parent holds the other end of that
// pipe, and the kernel closes it however the parent dies.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/fairlock/fairlock/etcdtest/internal/member"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until the server fails or stdin ends. It does not shut the server
// down then: no parent waits for that, and a member survives being killed.
func run(stdin io.Reader, stdout io.Writer) error {
	var spec member.Spec
	if err := json.NewDecoder(stdin).Decode(&spec); err != nil {
		return fmt.Errorf("etcdserver: read spec: %w", err)
	}
	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		_, _ = io.Copy(io.Discard, stdin)
	}()

	log := member.NewLog(os.Stderr)
	cfg, err := spec.Config(log)
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("etcdserver: start %q: %w", spec.Name, err)
	}
	if _, err := fmt.Fprintln(stdout, "serving"); err != nil {
		return err
	}

	ready := server.Server.ReadyNotify()
	for {
		select {
		case <-ready:
			ready = nil
			log.Started()
			if _, err := fmt.Fprintln(stdout, "ready"); err != nil {
				return err
			}
		case <-server.Server.StopNotify():
			return errors.New("etcdserver: the member stopped by itself")
		case err := <-server.Err():
			return fmt.Errorf("etcdserver: serve: %w", err)
		case <-orphaned:
			return nil
		}
	}
}

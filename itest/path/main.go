// Command path takes a lock on a real service, and writes which functions ran in one Lock on
// an empty queue. It has to be built with -cover -covermode=atomic; package house does, and
// counts them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"time"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// locks is how many locks are taken: the services' answers come in different orders, and a
// renewal can run in one of them.
const locks = 5

// rest is how long nothing is asked before a Lock, so that what Unlock leaves to the
// background is not counted.
const rest = 300 * time.Millisecond

func main() {
	on := flag.String("on", "etcd", "the service: etcd or zk")
	out := flag.String("out", "", "the folder that gets one folder for each lock")
	flag.Parse()
	if err := run(context.Background(), *on, *out); err != nil {
		fmt.Fprintln(os.Stderr, "path:", err)
		os.Exit(1)
	}
}

// run starts a server, and takes the locks.
func run(ctx context.Context, on, out string) (err error) {
	var s *session.Session
	switch on {
	case "etcd":
		cluster, err := etcdtest.Start(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = cluster.Close() }()
		client, err := cluster.NewClient(nil)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		s, err = etcdbackend.Open(ctx, client, nil)
		if err != nil {
			return err
		}
	case "zk":
		ensemble, err := zktest.Start(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = ensemble.Close() }()
		s, err = zkbackend.Open(ctx, []string{ensemble.Member(0).Direct()}, nil)
		if err != nil {
			return err
		}
	default:
		return fmt.Errorf("there is no service %q", on)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := mutex.New(s, "path/lock")
	for i := range locks + 1 { // the first makes folders and streams, and does not count
		folder := filepath.Join(out, strconv.Itoa(i))
		if i == 0 {
			folder = ""
		}
		if err := lock(ctx, m, folder); err != nil {
			return err
		}
	}
	return nil
}

// lock takes and releases the lock, and writes what ran in Lock into a new folder, if one is
// named.
func lock(ctx context.Context, m *mutex.Mutex, folder string) error {
	time.Sleep(rest)
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if folder != "" {
		err = errors.Join(os.Mkdir(folder, 0o700), coverage.WriteCountersDir(folder), coverage.WriteMetaDir(folder))
	}
	return errors.Join(err, h.Unlock())
}

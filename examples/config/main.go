// Config is a value that many goroutines read and that two change now and then.
// The writer downgrades its lock: readers may read again, it reads back with them
// what it wrote, and no other writer gets in between.
//
//	go run ./examples/config -endpoints 127.0.0.1:2379
//
// Without endpoints it starts an etcd of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

const key = "examples/config/value"

func main() {
	endpoints := flag.String("endpoints", "", "etcd endpoints, comma separated; none starts one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *endpoints, 3, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run starts three readers and two writers. Each writer changes the value the
// given number of times.
func run(ctx context.Context, endpoints string, changes int, out io.Writer) error {
	if endpoints == "" {
		c, err := etcdtest.Start(ctx, nil)
		if err != nil {
			return err
		}
		defer c.Close()
		endpoints = strings.Join(c.Endpoints(), ",")
	}
	// The client does not get ctx: it must still work when the locks are released.
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            strings.Split(endpoints, ","),
		DialKeepAliveTime:    10 * time.Second, // notices dead connections
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := etcdbackend.Open(ctx, client, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	c := &config{client: client, lock: rwlock.New(s, "config"), logger: log.New(out, "", 0)}
	readers, stop := context.WithCancel(ctx)
	errs := make(chan error)
	for range 3 {
		go func() { errs <- c.reader(readers) }()
	}
	for range 2 {
		go func() { errs <- c.writer(ctx, changes) }()
	}
	err = errors.Join(<-errs, <-errs) // the writers, unless a reader fails
	stop()
	return errors.Join(err, <-errs, <-errs, <-errs)
}

type config struct {
	client *clientv3.Client
	lock   *rwlock.RWLock
	logger *log.Logger
}

// get reads the value.
func (c *config) get(ctx context.Context) (int, error) {
	got, err := c.client.Get(ctx, key)
	if err != nil || len(got.Kvs) == 0 {
		return 0, err
	}
	return strconv.Atoi(string(got.Kvs[0].Value))
}

// reader prints the value again and again.
func (c *config) reader(ctx context.Context) error {
	for range time.Tick(20 * time.Millisecond) {
		err := c.lock.RDo(ctx, func(ctx context.Context, h *session.Hold) error {
			value, err := c.get(ctx)
			c.logger.Printf("read %d, token %d", value, h.Token())
			return err
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // all is done
		} else if errors.Is(err, session.ErrLost) {
			c.logger.Print(err) // a writer may have held the lock: trust nothing that was read
		} else if err != nil {
			return err
		}
	}
	return nil
}

// writer changes the value the given number of times.
func (c *config) writer(ctx context.Context, changes int) error {
	for done := 0; done < changes; time.Sleep(50 * time.Millisecond) {
		written, err := c.change(ctx)
		if written { // the write stays, even if the lock was lost right after it
			done++
		}
		if errors.Is(err, session.ErrLost) {
			c.logger.Print("written ", written, ": ", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// change adds one to the value, and reports whether it has written it.
func (c *config) change(ctx context.Context) (written bool, err error) {
	err = c.lock.Do(ctx, func(ctx context.Context, h *session.Hold) error {
		value, err := c.get(ctx)
		if err != nil {
			return err
		}
		// The write happens only if the lock is still held at that moment.
		resp, err := c.client.Txn(ctx).If(etcdbackend.Guard(h)...).Then(clientv3.OpPut(key, strconv.Itoa(value+1))).Commit()
		if err != nil {
			return err
		}
		written = resp.Succeeded
		if !written {
			return session.ErrLost
		}
		if err := c.lock.Downgrade(ctx, h); err != nil {
			return err
		}
		now, err := c.get(ctx) // readers may read at the same time; no writer has come in between
		c.logger.Printf("wrote %d, read back %d, token %d", value+1, now, h.Token())
		return err
	})
	return written, err
}

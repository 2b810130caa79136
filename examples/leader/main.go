// Leader is a job that must run once a second in one process only, and that
// continues when a process dies: three processes are candidates in an election,
// and the leader runs the job.
//
//	go run ./examples/leader
//	FAIRLOCK_ETCD=127.0.0.1:2379 go run ./examples/leader -node a
//
// Without -node it starts three processes of its own, on FAIRLOCK_ETCD or an etcd
// of its own, and kills the leader after two runs.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

func main() {
	node := flag.String("node", "", "run as the candidate with this name; none starts three")
	runs := flag.Int("runs", 6, "how often the job has to run")
	job := flag.String("job", "hourly", "name of the job")
	rollOut := flag.Int64("generation", 0, "number of the roll-out, higher each time: a rolling update then changes the leader once")
	ttl := flag.Duration("ttl", 2*time.Second, "how long a crashed leader keeps the others waiting")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	endpoints, err := os.Getenv("FAIRLOCK_ETCD"), error(nil)
	if *node != "" {
		err = candidate(ctx, strings.Split(endpoints, ","), *node, *job, *rollOut, *runs, *ttl)
	} else {
		err = demo(ctx, endpoints, *runs, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// errDone ends the election when the job has run as often as it has to.
var errDone = errors.New("nothing is left to do")

// candidate is one of the processes. When ctx ends, Run resigns and Close ends the
// session, so the next leader starts at once. The client must still work then, so
// it does not get ctx.
func candidate(ctx context.Context, endpoints []string, node, job string, rollOut int64, runs int, ttl time.Duration) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialKeepAliveTime:    10 * time.Second, // notices dead connections
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{Session: session.Options{TTL: ttl, Label: node}})
	if err != nil {
		return err
	}
	defer s.Close()
	e := election.NewWith(s, job, election.Options{Generation: rollOut})
	err = e.Run(ctx, node, func(ctx context.Context, h *session.Hold) error {
		last, err := lead(ctx, client, h, node, runs)
		if last >= runs {
			return errDone
		}
		return err // an error ends Run, except for a leadership that was lost or handed over: Run campaigns again
	})
	if errors.Is(err, errDone) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// lead runs the job every second, and returns the number of the last run.
func lead(ctx context.Context, client *clientv3.Client, h *session.Hold, node string, runs int) (last int, err error) {
	counter := "examples/leader/" + h.Name() // the key with the number of the last run
	got, err := client.Get(ctx, counter)
	if err != nil {
		return 0, err
	}
	if len(got.Kvs) > 0 {
		last, _ = strconv.Atoi(string(got.Kvs[0].Value))
	}
	for last < runs {
		select {
		case <-time.After(time.Second): // the job
		case <-ctx.Done(): // lost: the next leader may start when the margin has passed
			return last, context.Cause(ctx)
		}
		// The write happens only if we still lead at that moment. No check of the
		// clock could ensure that. So two leaders never count the same run.
		resp, err := client.Txn(ctx).If(etcdbackend.Guard(h)...).Then(clientv3.OpPut(counter, strconv.Itoa(last+1))).Commit()
		switch {
		case err != nil:
			return last, err
		case !resp.Succeeded:
			return last, session.ErrLost
		}
		last++
		fmt.Printf("run %d by %s, token %d\n", last, node, h.Token())
	}
	return last, nil
}

// demo starts three candidates, kills the leader after two runs, and returns when
// all have ended.
func demo(ctx context.Context, endpoints string, runs int, out io.Writer) error {
	if endpoints == "" {
		c, err := etcdtest.Start(ctx, nil)
		if err != nil {
			return err
		}
		defer c.Close()
		endpoints = strings.Join(c.Endpoints(), ",")
	}
	output, input := io.Pipe()
	nodes := map[string]*exec.Cmd{}
	var ends sync.WaitGroup
	for name := range strings.FieldsSeq("a b c") {
		cmd := exec.CommandContext(ctx, os.Args[0], "-node", name, "-runs", strconv.Itoa(runs), "-job", fmt.Sprint("demo-", os.Getpid()))
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "FAIRLOCK_ETCD="+endpoints), input, os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it resigns
		cmd.WaitDelay = 5 * time.Second
		nodes[name] = cmd
		ends.Go(func() {
			if err := cmd.Run(); err != nil {
				fmt.Fprintf(input, "%s: %v\n", name, err)
			}
		})
	}
	go func() { ends.Wait(); input.Close() }() // ends with the last candidate; then the loop below ends
	for lines := bufio.NewScanner(output); lines.Scan(); {
		fmt.Fprintln(out, lines.Text())
		name, ok := strings.CutPrefix(lines.Text(), "run 2 by ")
		if ok {
			name, _, _ = strings.Cut(name, ",")
			if err := nodes[name].Process.Kill(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

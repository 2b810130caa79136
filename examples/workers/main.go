// Workers shows twelve workers that share three of something scarce: licences,
// machines, GPUs. A semaphore admits three at a time, in the order in which they
// came, and assigns each a slot, which is the number of the GPU that it may use.
//
//	go run ./examples/workers -endpoints 127.0.0.1:2379
//
// Without endpoints it starts an etcd of its own. Several processes of it share
// the three GPUs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

const (
	workers = 12
	gpus    = 3
	steps   = 10 // of each worker's job
)

func main() {
	endpoints := flag.String("endpoints", "", "etcd endpoints, comma separated; none starts one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	show := &display{out: os.Stdout, inPlace: term.IsTerminal(int(os.Stdout.Fd()))}
	if err := run(ctx, *endpoints, show); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, endpoints string, show *display) error {
	if endpoints == "" {
		c, err := etcdtest.Start(ctx, nil)
		if err != nil {
			return err
		}
		defer c.Close()
		endpoints = strings.Join(c.Endpoints(), ",")
	}
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: strings.Split(endpoints, ",")}, &etcdbackend.Options{
		Session: session.Options{Label: "workers example"},
	})
	if err != nil {
		return err
	}
	defer s.Close()
	pool := semaphore.NewWith(s, "gpu", gpus, semaphore.Options{Slots: true})
	var machines [gpus]fence.Gate // each refuses a worker that was stopped until another had its slot
	var errs [workers]error
	var all sync.WaitGroup
	for id := range workers {
		all.Go(func() {
			for done := 0; done < steps && ctx.Err() == nil; {
				show.set(id, done, "waits")
				err := pool.Do(ctx, 1, func(ctx context.Context, h *session.Hold) error {
					return work(ctx, h, &machines[h.Slot()], &done, func() {
						show.set(id, done, fmt.Sprintf("on gpu %d, token %d", h.Slot(), h.Token()))
					})
				})
				switch {
				case err == nil:
					show.set(id, done, "done")
				case errors.Is(err, session.ErrLost), errors.Is(err, fence.ErrStale):
					show.set(id, done, "lost its permit") // the steps that are done stay done; the worker queues for the rest
				default:
					errs[id] = err
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// work does steps of a job until it is complete, or ctx ends because the permit
// was lost: another worker may get the slot when the margin has passed.
func work(ctx context.Context, h *session.Hold, gpu *fence.Gate, done *int, show func()) error {
	if err := gpu.Admit(h.Token(), session.Exclusive); err != nil { // the first access
		return err
	}
	for *done < steps {
		show()
		select {
		case <-time.After(time.Duration(20+rand.N(20)) * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err := gpu.Do(h.Token(), session.Exclusive, func(fence.Marks) error { *done++; return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// display shows one line for each worker: in place on a terminal, and elsewhere a
// line for each change of a worker's state.
type display struct {
	mu      sync.Mutex
	out     io.Writer
	inPlace bool
	drawn   bool
	states  [workers]string
	steps   [workers]int
}

func (d *display) set(id, done int, state string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.inPlace && d.states[id] != state {
		fmt.Fprintf(d.out, "worker %2d: %2d/%d %s\n", id, done, steps, state)
	}
	d.states[id], d.steps[id] = state, done
	if !d.inPlace {
		return
	}
	var frame strings.Builder
	if d.drawn {
		fmt.Fprintf(&frame, "\x1b[%dA", workers) // up to the first line
	}
	for i := range workers {
		bar := strings.Repeat("█", d.steps[i]) + strings.Repeat("░", steps-d.steps[i])
		fmt.Fprintf(&frame, "\x1b[2Kworker %2d %s %.40s\n", i, bar, d.states[i])
	}
	d.drawn = true
	fmt.Fprint(d.out, frame.String())
}

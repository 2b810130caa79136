// Asynq shows replicas of the process that enqueues the periodic tasks of asynq. A Scheduler of
// asynq enqueues them in each process that runs it, so only one may. Here each replica is a
// candidate, the leader runs the Scheduler, and the next one takes over when it ends. Tasks and
// locks are in one Redis.
//
//	fairlock init redis://localhost
//	go run . -name one & go run . -name two & go run . -name three
//	fairlock who --on redis://localhost asynq/scheduler
//
// What to know:
//
//   - While no replica leads, ticks are left out: for the TTL of the session (15 s by default) if
//     the leader was killed, for milliseconds if it was terminated.
//   - "@every 5m" counts from the moment at which the replica began to lead. Crontab lines mean
//     the same to all.
//   - A process that was stopped for longer than the TTL may enqueue one tick when it goes on,
//     before its context ends. Where each tick must be enqueued exactly once, use no Scheduler:
//     call Client.Enqueue at each tick in all replicas, with an asynq.TaskID that names the tick
//     and with asynq.Retention for longer than clocks differ. asynq refuses all but the first, and
//     no lock is needed.
//   - asynq.Unique is no lock either: it ends when the task is done, so a replica whose clock is
//     late enqueues a short task again.
//   - That a task is enqueued once does not make it run once: asynq repeats a task whose worker
//     has died. Take a lock in its handler where two runs at a time would do harm.
//   - Locks need a Redis that evicts nothing (maxmemory-policy noeviction), and so does asynq.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/hibiken/asynq"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session"
)

func main() {
	addr := flag.String("redis", "localhost:6379", "the Redis of the tasks and the locks")
	name := flag.String("name", strconv.Itoa(os.Getpid()), "the name of the replica")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *name); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run is one replica. It returns when ctx ends, or if waiting does not help.
func run(ctx context.Context, addr, name string) error {
	s, err := redisbackend.Dial(ctx, "redis://"+addr, &redisbackend.Options{Session: session.Options{Label: name}})
	if err != nil {
		return err
	}
	err = election.New(s, "asynq/scheduler").Run(ctx, name, func(ctx context.Context, h *session.Hold) error {
		return schedule(ctx, addr, h.Token())
	})
	return errors.Join(err, s.Close())
}

// schedule runs a Scheduler until ctx ends: the leadership is lost, or the program ends. A
// Scheduler cannot be started again, so each leadership makes one.
func schedule(ctx context.Context, addr string, token session.Token) error {
	scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: addr}, &asynq.SchedulerOpts{
		PostEnqueueFunc: func(task *asynq.TaskInfo, err error) {
			if err != nil {
				log.Print(err) // the tick is left out
				return
			}
			fmt.Println("enqueued", task.Type, task.ID)
		},
	})
	report := asynq.NewTask("report", strconv.AppendUint(nil, uint64(token), 10)) // of the leader that enqueues it
	if _, err := scheduler.Register("@every 1s", report); err != nil {
		return err
	}
	if err := scheduler.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	scheduler.Shutdown() // waits until a task is enqueued
	return context.Cause(ctx)
}

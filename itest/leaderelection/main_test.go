package leaderelection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	fairleaderelection "github.com/fairlock/fairlock/adapters/leaderelection"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// env makes a test binary a candidate; its value is a job.
const env = "FAIRLOCK_ITEST_CANDIDATE"

func TestMain(m *testing.M) {
	process.Child(env, run)
	code := m.Run()
	for _, close := range []func() error{etcd.Close, postgres.Close, redis.Close, zookeeper.Close} {
		if err := close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// logger is that of the hosts. Only warnings and errors are written.
var logger = logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

// job describes a candidate.
type job struct {
	Host     string // of hosts
	ID       string
	URL      string // of the service
	TTL      time.Duration
	Election string
	Log      string // a file to which all candidates append their notes
}

// Kinds of notes.
const (
	started = "started" // the work of the leader, with a token
	worked  = "worked"  // its work has ended
	stopped = "stopped" // OnStoppedLeading was called
	ended   = "ended"   // the candidate has resigned, or has lost the leadership
)

// answer is what a candidate writes when it is asked.
type answer struct {
	Ready   bool   // the first one, which comes by itself
	Leads   bool   // by the election
	Healthy bool   // by the WatchDog
	Ended   bool   // the host has returned
	Lost    bool   // with session.ErrLost
	Error   string // with this error; "" for nil
}

// A candidate is a process.
type candidate struct {
	job
	s    *session.Session
	log  *os.File
	dog  atomic.Pointer[fairleaderelection.HealthzAdaptor]
	done atomic.Pointer[error]
}

func (c *candidate) election() *election.Election { return election.New(c.s, c.Election) }

func (c *candidate) watchDog(a *fairleaderelection.HealthzAdaptor) *fairleaderelection.HealthzAdaptor {
	c.dog.Store(a)
	return a
}

// note appends a line in one write, so that all notes of all processes are in order.
func (c *candidate) note(kind string, token session.Token) {
	if _, err := fmt.Fprintln(c.log, kind, c.ID, token); err != nil {
		panic(err)
	}
}

// work is that of the leader.
func (c *candidate) work(ctx context.Context) {
	token, _ := session.TokenFrom(ctx)
	c.note(started, token)
	<-ctx.Done()
	c.note(worked, token)
}

// run is the main function of a candidate. It campaigns until it reads "stop", answers whatever else
// it reads, and exits when its input has ended.
func run(text string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &candidate{}
	err := json.Unmarshal([]byte(text), &c.job)
	if err != nil {
		return err
	}
	c.log, err = os.OpenFile(c.Log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	c.s, err = open(ctx, c.URL, c.TTL)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	err = out.Encode(answer{Ready: true})
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		in := json.NewDecoder(os.Stdin)
		for {
			var command string
			if in.Decode(&command) != nil {
				cancel()
				return
			}
			if command == "stop" {
				cancel()
				continue
			}
			a := answer{Leads: c.election().IsLeader(), Healthy: c.dog.Load() == nil || c.dog.Load().Check(nil) == nil}
			if e := c.done.Load(); e != nil {
				a.Ended, a.Lost = true, errors.Is(*e, session.ErrLost)
				if *e != nil {
					a.Error = (*e).Error()
				}
			}
			_ = out.Encode(a) // a test that has ended does not read it
		}
	}()
	result := hosts[c.Host](ctx, c)
	c.done.Store(&result)
	err = errors.Join(result, c.s.Close())
	c.note(ended, 0)
	<-over
	return err
}

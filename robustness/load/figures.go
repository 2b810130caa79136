package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// Figures are what there is of everything at a moment.
type Figures struct {
	// Of this process.
	Heap       int64 `json:"heap"` // bytes that are in use after two collections
	Goroutines int64 `json:"goroutines"`
	Files      int64 `json:"files"` // descriptors, sockets included

	Server
}

// Server is what a server says of itself.
type Server struct {
	Keys     int64 `json:"keys"`   // on etcd but for fences, nodes on ZooKeeper
	Fences   int64 `json:"fences"` // on etcd: keys that keep a request that was given up from being carried out
	Watches  int64 `json:"watches"`
	Sessions int64 `json:"sessions"` // leases on etcd
	Streams  int64 `json:"streams"`  // of watches on etcd, connections on ZooKeeper
	Files    int64 `json:"server_files"`
	Heap     int64 `json:"server_heap"` // in use; 0 if the server does not tell, as ZooKeeper
}

// ErrNotBack says that a figure did not return to where it began.
var ErrNotBack = errors.New("load: not back to where it began")

const (
	// pollEvery is how often it is looked whether something has come about.
	pollEvery = 50 * time.Millisecond

	// settleWithin is how long figures get to return. What takes its time by
	// design is a watch on etcd (2 s after its last use), the stream of watches
	// there (30 s) and a folder on ZooKeeper, which the server removes when it
	// next looks for empty ones (see containerCheck).
	settleWithin = time.Minute

	// quietFor is how long a figure must stay the same to be called steady: longer
	// than a folder above a folder takes to go (see containerCheck).
	quietFor = 3 * containerCheck
)

// figures takes stock. It collects garbage, which takes a moment.
func figures(ctx context.Context, s Store) (f Figures, err error) {
	// Before the server is asked: what that takes is still on its way out then.
	f.Goroutines = int64(runtime.NumGoroutine())
	if f.Files, err = openFiles(); err != nil {
		return f, err
	}
	if f.Server, err = s.Server(ctx); err != nil {
		return f, err
	}
	runtime.GC()
	runtime.GC() // what pools and finalizers kept the first time
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Heap = int64(m.HeapAlloc)
	return f, nil
}

// openFiles is how many descriptors this process has.
func openFiles() (int64, error) {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, fmt.Errorf("load: count descriptors: %w", err)
	}
	return int64(len(all)) - 1, nil // the one that it was read through
}

// until asks done again and again until it says so, or an error, or ctx ends.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("load: wait until %s: %w", what, context.Cause(ctx))
		}
	}
}

// steady waits until a figure has stayed the same for a while.
func steady(ctx context.Context, what string, figure func() (int64, error)) error {
	last, since := int64(-1), time.Now()
	return until(ctx, what+" stays the same", func() (bool, error) {
		now, err := figure()
		if err != nil {
			return false, err
		}
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quietFor, nil
	})
}

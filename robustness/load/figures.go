package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// Figures has the counts and sizes at one moment.
type Figures struct {
	// Of this process.
	Heap       int64 `json:"heap"` // bytes that are in use after two collections
	Goroutines int64 `json:"goroutines"`
	Files      int64 `json:"files"` // descriptors, sockets included

	Server
}

// Server has the figures that a server reports.
type Server struct {
	Keys     int64 `json:"keys"`   // on etcd, except fences; znodes on ZooKeeper
	Fences   int64 `json:"fences"` // on etcd: keys that prevent a request that was given up from taking effect
	Watches  int64 `json:"watches"`
	Sessions int64 `json:"sessions"` // leases on etcd
	Streams  int64 `json:"streams"`  // of watches on etcd, connections on ZooKeeper
	Files    int64 `json:"server_files"`
	Heap     int64 `json:"server_heap"` // in use; 0 if the server does not report it, as ZooKeeper
}

// ErrNotBack reports that a figure did not return to its start value.
var ErrNotBack = errors.New("load: a figure did not return to its start value")

const (
	// pollEvery is the pause between two checks of a condition.
	pollEvery = 50 * time.Millisecond

	// settleWithin is how long figures may take to return. Some end late by design:
	// a watch on etcd (2 s after its last use), the stream of watches there (30 s),
	// and a folder on ZooKeeper, which the server removes at its next check for
	// empty folders (see containerCheck).
	settleWithin = time.Minute

	// quietFor is how long a figure must stay the same to be steady: longer than the
	// removal of a folder and the folder above it takes (see containerCheck).
	quietFor = 3 * containerCheck
)

// figures measures all figures. It collects garbage, which takes a moment.
func figures(ctx context.Context, s Service) (f Figures, err error) {
	// Before the request to the server, whose goroutines and descriptors end late.
	f.Goroutines = int64(runtime.NumGoroutine())
	f.Files, err = openFiles()
	if err != nil {
		return f, err
	}
	f.Server, err = s.Server(ctx)
	if err != nil {
		return f, err
	}
	runtime.GC()
	runtime.GC() // frees what pools and finalizers kept the first time
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Heap = int64(m.HeapAlloc)
	return f, nil
}

// openFiles returns the number of file descriptors of this process.
func openFiles() (int64, error) {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, fmt.Errorf("load: count descriptors: %w", err)
	}
	return int64(len(all)) - 1, nil // without the one of this ReadDir
}

// until calls done again and again until it returns true or an error, or ctx ends.
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

// steady waits until a figure has stayed the same for quietFor.
func steady(ctx context.Context, what string, figure func() (int64, error)) error {
	last, since := int64(-1), time.Now()
	return until(ctx, what+" stay the same", func() (bool, error) {
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

// Package rollout replaces the replicas of a program of which one leads, and measures how the
// leadership moves: in virtual time or on real servers, with this library's election or with another.
package rollout

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Replicas is how many replicas are replaced.
const Replicas = 5

// The versions of the program: all replicas are Old at first, and New at the end.
const (
	Old = 1
	New = 2
)

// stopTime is how long the work of a leader takes to return, at most.
const stopTime = 30 * time.Millisecond

// A Script is a way to replace all replicas, one after another.
type Script struct {
	NewFirst bool // each new one campaigns before an old one stops
	AnyOrder bool // otherwise the oldest one stops first
	Kill     bool // old ones are killed
}

// String describes the script.
func (s Script) String() string {
	text := "old before new"
	if s.NewFirst {
		text = "new before old"
	}
	if s.AnyOrder {
		text += ", any order"
	} else {
		text += ", the oldest first"
	}
	if s.Kill {
		text += ", killed"
	}
	return text
}

// A Replica is one process of the program. Each function returns when it has ended.
type Replica struct {
	Stop  func() // as SIGTERM does
	Kill  func()
	Ended <-chan struct{} // closed when it has ended by itself or otherwise
}

// A Fleet is the replicas. All of them are in this process, so it sees every leader.
type Fleet struct {
	// Start starts a replica that campaigns at once, and has Lead called when it leads.
	Start func(version int64) Replica

	// Each pause of a script takes so long.
	Least, Most time.Duration

	mu      sync.Mutex
	random  *rand.Rand
	leading int       // how many lead now
	stopped time.Time // when the last one stopped to lead
	seen    Result
}

// Result is what became of the leadership.
type Result struct {
	Led      []int64         // the versions of the leaders, in order
	Gaps     []time.Duration // between two leaders: from the return of the work of one
	Overlaps int             // how often a leader began while another one led
}

// Changes returns how often the leadership has moved.
func (r Result) Changes() int { return max(0, len(r.Led)-1) }

// NewFleet returns a fleet without replicas. What it draws depends on the seed.
func NewFleet(seed int, start func(version int64) Replica) *Fleet {
	return &Fleet{Start: start, random: rand.New(rand.NewPCG(uint64(seed), 0))}
}

// First starts the old replicas, in the order of their campaigns.
func (f *Fleet) First() (old []Replica) {
	for range Replicas {
		old = append(old, f.Start(Old))
		time.Sleep(f.Least)
	}
	f.settle()
	return old
}

// Replace replaces the replicas, and returns the new ones.
func (f *Fleet) Replace(old []Replica, s Script) (young []Replica) {
	order := []int{0, 1, 2, 3, 4}
	if s.AnyOrder {
		order = f.order()
	}
	for _, i := range order {
		end := old[i].Stop
		if s.Kill {
			end = old[i].Kill
		}
		if !s.NewFirst {
			end()
			f.pause()
		}
		young = append(young, f.Start(New))
		if s.NewFirst {
			f.pause()
			end()
		} else {
			time.Sleep(f.Least)
		}
		f.settle()
	}
	return young
}

// Stop stops replicas, the last ones first.
func Stop(rs []Replica) {
	for _, r := range slices.Backward(rs) {
		r.Stop()
	}
}

// Lead calls work, which is that of a leader and returns when the leadership ends.
func (f *Fleet) Lead(version int64, work func()) {
	f.mu.Lock()
	if f.leading > 0 {
		f.seen.Overlaps++
	} else if len(f.seen.Led) > 0 {
		f.seen.Gaps = append(f.seen.Gaps, time.Since(f.stopped))
	}
	f.leading++
	f.seen.Led = append(f.seen.Led, version)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.leading--
		f.stopped = time.Now()
	}()
	work()
}

// StopTime draws how long the work of a leader takes to return.
func (f *Fleet) StopTime() time.Duration { return f.Draw(stopTime) }

// Draw draws a time below d.
func (f *Fleet) Draw(d time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Int64N(int64(d)))
}

func (f *Fleet) order() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.Perm(Replicas)
}

// Seen returns what became of the leadership so far.
func (f *Fleet) Seen() Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.seen
	r.Led, r.Gaps = slices.Clone(r.Led), slices.Clone(r.Gaps)
	return r
}

func (f *Fleet) pause() { time.Sleep(f.Least + f.Draw(f.Most-f.Least)) }

// settle waits until a replica leads.
func (f *Fleet) settle() {
	for {
		f.mu.Lock()
		leads := f.leading > 0
		f.mu.Unlock()
		if leads {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Package contention makes a pprof profile of reads of queues: for how long callers
// waited, for which lock, and for which holder.
package contention

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/fairlock/fairlock/internal/schema"
)

// Profile collects reads. The stacks of its samples have the lock at the root, then
// the holder, and the waiter as the leaf. So a flame graph shows the waiting time of
// each lock, split by the holder that was waited for, then by waiter. The zero
// Profile is not usable; see [New]. It is not safe for concurrent use.
type Profile struct {
	out       *profile.Profile
	samples   map[string]*profile.Sample
	locations map[string]*profile.Location

	// Reads and Waiters count what was added.
	Reads, Waiters int
	locks          map[string]bool
}

// The sample types: how many waiters were read, and the time that each of them counts
// for.
const (
	typeWaiters = "waiters"
	typeDelay   = "delay"
)

// New returns an empty Profile of a service that is read every interval.
func New(service string, at time.Time, interval time.Duration) *Profile {
	return &Profile{
		out: &profile.Profile{
			SampleType:        []*profile.ValueType{{Type: typeWaiters, Unit: "count"}, {Type: typeDelay, Unit: "nanoseconds"}},
			DefaultSampleType: typeDelay,
			PeriodType:        &profile.ValueType{Type: typeDelay, Unit: "nanoseconds"},
			Period:            interval.Nanoseconds(),
			TimeNanos:         at.UnixNano(),
			Comments:          []string{service},
			// Without a mapping that has functions, pprof looks for a binary.
			Mapping: []*profile.Mapping{{ID: 1, File: "fairlock", HasFunctions: true}},
		},
		samples: map[string]*profile.Sample{}, locations: map[string]*profile.Location{}, locks: map[string]bool{},
	}
}

// Add adds a read, which counts for the time d. Each waiter is a sample. If a lock has
// several holders, a waiter is counted under the one that asked first.
func (p *Profile) Add(queues []schema.Queue, d time.Duration) {
	p.Reads++
	p.out.DurationNanos += d.Nanoseconds()
	for _, l := range queues {
		holder := "(no holder)"
		for _, e := range l.Entries {
			if e.State == schema.Holder {
				holder = owner(e)
				break
			}
		}
		for _, e := range l.Entries {
			if e.State != schema.Waiter {
				continue
			}
			p.Waiters++
			p.locks[l.Name] = true
			s := p.sample(l, holder, e)
			s.Value[0]++
			s.Value[1] += d.Nanoseconds()
		}
	}
}

// Locks returns how many locks had a waiter.
func (p *Profile) Locks() int { return len(p.locks) }

// Profile returns what was collected. It may be called once, after the last Add.
func (p *Profile) Profile() *profile.Profile { return p.out }

// sample returns the sample of a waiter; all reads of the waiter share it.
func (p *Profile) sample(l schema.Queue, holder string, e schema.Entry) *profile.Sample {
	stack := []string{"waiter " + owner(e), "holder " + holder, "lock " + l.Name}
	labels := map[string]string{"lock": l.Name, "kind": l.Kind, "host": e.Host, "label": e.Label}
	if e.PID != 0 {
		labels["pid"] = strconv.Itoa(e.PID)
	}
	key := strings.Join(append(stack, l.Kind, e.Host, e.Label, labels["pid"]), "\x00")
	s := p.samples[key]
	if s != nil {
		return s
	}
	s = &profile.Sample{Value: make([]int64, 2), Label: map[string][]string{}}
	for name, value := range labels {
		if value != "" {
			s.Label[name] = []string{value}
		}
	}
	for _, frame := range stack {
		s.Location = append(s.Location, p.location(frame))
	}
	p.samples[key] = s
	p.out.Sample = append(p.out.Sample, s)
	return s
}

// location returns the frame of a name. A name has only one frame.
func (p *Profile) location(name string) *profile.Location {
	l := p.locations[name]
	if l != nil {
		return l
	}
	id := uint64(len(p.out.Function) + 1)
	f := &profile.Function{ID: id, Name: name, SystemName: name}
	l = &profile.Location{ID: id, Mapping: p.out.Mapping[0], Line: []profile.Line{{Function: f}}}
	p.out.Function, p.out.Location = append(p.out.Function, f), append(p.out.Location, l)
	p.locations[name] = l
	return l
}

// owner names the owner of an entry. Workers with the same label on a host are one
// frame, and the pid is a label of the sample.
func owner(e schema.Entry) string {
	if e.Host == "" || e.Label == "" {
		return e.Who()
	}
	return e.Host + " (" + e.Label + ")"
}

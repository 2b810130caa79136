package history

import "fmt"

// Touch is one operation at a resource that a lock protects. The resource is a
// counter: every holder reads it, and then sets it to one more.
type Touch struct {
	Client  int
	Token   int64 // 0 if the lock has none: then nothing is refused
	Shared  bool  // the hold is shared
	Write   bool
	Value   int64 // that was read, or written
	Refused bool  // because of the token; a read that was refused has no value
}

// ResourceCounts counts the touches of a resource, and the updates that were lost: with
// its fence, and at least how many without one.
type ResourceCounts struct {
	Accepted, Refused int
	Writes            int   // that were accepted
	Lost              int64 // updates that were accepted and are not in the final value
	Unfenced          int64 // updates that would have been lost without a fence, at least
}

// Plus adds up the counts of two resources.
func (t ResourceCounts) Plus(u ResourceCounts) ResourceCounts {
	return ResourceCounts{t.Accepted + u.Accepted, t.Refused + u.Refused, t.Writes + u.Writes, t.Lost + u.Lost, t.Unfenced + u.Unfenced}
}

// Fence judges S3 at one resource, whose touches are in the order in which it handled
// them. The resource must accept an exclusive token if and only if it is at least the
// highest that it has seen, reads included. It must accept a shared token if and only
// if it is at least the highest exclusive one. No accepted update may be lost.
//
// An update is lost if it was computed from a value that was not the newest. The same
// touches show what a resource without a fence would have lost. That is a lower bound:
// a holder whose read was refused did not write, and might have.
func Fence(resource string, touches []Touch) ([]Violation, ResourceCounts) {
	f := &fence{resource: resource, read: make(map[holder]int64)}
	for i := range touches {
		f.touch(&touches[i])
	}
	f.counts.Lost = int64(f.counts.Writes) - f.value
	f.counts.Unfenced = f.tried - f.open
	return f.found, f.counts
}

type holder struct {
	client int
	token  int64
}

// fence is the check of one resource.
type fence struct {
	resource  string
	exclusive int64 // the highest token of each kind
	shared    int64
	value     int64

	open  int64            // the value of a resource without a fence
	read  map[holder]int64 // the value that each holder would have read there
	tried int64            // writes, refused ones included

	counts ResourceCounts
	found  []Violation
}

func (f *fence) report(format string, args ...any) {
	f.found = append(f.found, Violation{"S3", "fence", f.resource, fmt.Sprintf(format, args...)})
}

// touch judges one touch.
func (f *fence) touch(t *Touch) {
	f.unfenced(t)
	highest := f.exclusive
	if !t.Shared {
		highest = max(highest, f.shared)
	}
	old := t.Token < highest && t.Token != 0
	switch {
	case old && !t.Refused:
		f.report("client %d was accepted with the token %d, after %d", t.Client, t.Token, highest)
	case !old && t.Refused:
		f.report("client %d was refused with the token %d, but the highest was %d", t.Client, t.Token, highest)
	}
	if t.Refused {
		f.counts.Refused++
		return
	}
	f.counts.Accepted++
	if t.Shared {
		f.shared = max(f.shared, t.Token)
	} else {
		f.exclusive = max(f.exclusive, t.Token)
	}
	switch {
	case !t.Write && t.Value != f.value:
		f.report("client %d read %d, but the last value written is %d", t.Client, t.Value, f.value)
	case t.Write && t.Value != f.value+1:
		f.report("client %d (token %d) wrote %d over %d: %d updates are lost", t.Client, t.Token, t.Value, f.value, max(f.value+1-t.Value, 1))
	}
	if t.Write {
		f.counts.Writes++
		f.value = t.Value
	}
}

// unfenced applies a touch to a resource without a fence.
func (f *fence) unfenced(t *Touch) {
	h := holder{t.Client, t.Token}
	if !t.Write {
		f.read[h] = f.open
		return
	}
	f.tried++
	f.open = f.read[h] + 1
	f.read[h] = f.open // the next write of this holder continues from here
}

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
	Refused bool  // because of the token; a read that was refused tells no value
}

// Toll is what became of a resource, and what would have become of it if it had
// let everybody in.
type Toll struct {
	Accepted, Refused int
	Writes            int   // that were accepted
	Lost              int64 // updates that were accepted and are not in the end
	Unfenced          int64 // updates that would have been lost without a fence, at least
}

// Plus adds up two resources.
func (t Toll) Plus(u Toll) Toll {
	return Toll{t.Accepted + u.Accepted, t.Refused + u.Refused, t.Writes + u.Writes, t.Lost + u.Lost, t.Unfenced + u.Unfenced}
}

// Fence judges S3 at one resource, whose touches are in the order in which it took
// them: it takes a token if that is not lower than the highest that it has seen,
// reads included, and no other; and of the updates that it takes none is lost. A
// shared token has to be not lower than the highest exclusive one.
//
// An update is lost if it was made of a value that was not the newest. What a
// resource without a fence would have lost is counted from the same touches. A
// holder that was refused when it read did not write, and might have: so it is at
// least so much.
func Fence(resource string, touches []Touch) ([]Violation, Toll) {
	f := &fence{resource: resource, read: make(map[holder]int64)}
	for i := range touches {
		f.take(&touches[i])
	}
	f.toll.Lost = int64(f.toll.Writes) - f.value
	f.toll.Unfenced = f.tried - f.open
	return f.found, f.toll
}

type holder struct {
	client int
	token  int64
}

// fence is a resource under examination.
type fence struct {
	resource  string
	exclusive int64 // the highest token of each kind
	shared    int64
	value     int64

	open  int64            // the value, had all been let in
	read  map[holder]int64 // what each would have read then
	tried int64

	toll  Toll
	found []Violation
}

func (f *fence) report(format string, args ...any) {
	f.found = append(f.found, Violation{"S3", "fence", f.resource, fmt.Sprintf(format, args...)})
}

// take is one touch.
func (f *fence) take(t *Touch) {
	f.letIn(t)
	highest := f.exclusive
	if !t.Shared {
		highest = max(highest, f.shared)
	}
	switch old := t.Token < highest && t.Token != 0; {
	case old && !t.Refused:
		f.report("client %d was let in with the token %d, after %d", t.Client, t.Token, highest)
	case !old && t.Refused:
		f.report("client %d was refused with the token %d, and the highest was %d", t.Client, t.Token, highest)
	}
	if t.Refused {
		f.toll.Refused++
		return
	}
	f.toll.Accepted++
	if t.Shared {
		f.shared = max(f.shared, t.Token)
	} else {
		f.exclusive = max(f.exclusive, t.Token)
	}
	switch {
	case !t.Write && t.Value != f.value:
		f.report("client %d read %d, and the last that was written is %d", t.Client, t.Value, f.value)
	case t.Write && t.Value != f.value+1:
		f.report("client %d (token %d) wrote %d over %d: %d updates are lost", t.Client, t.Token, t.Value, f.value, max(f.value+1-t.Value, 1))
	}
	if t.Write {
		f.toll.Writes++
		f.value = t.Value
	}
}

// letIn plays a touch on a resource without a fence.
func (f *fence) letIn(t *Touch) {
	who := holder{t.Client, t.Token}
	if !t.Write {
		f.read[who] = f.open
		return
	}
	f.tried++
	f.open = f.read[who] + 1
	f.read[who] = f.open // it goes on from what it wrote
}

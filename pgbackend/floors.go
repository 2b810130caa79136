package pgbackend

import (
	"slices"
	"sync"
)

// floors are, by stored queues, places below which a queue has no entry, and never will in this
// life: places only rise. A statement that begins there passes no row that was deleted long ago,
// which vacuum may not remove while an old snapshot needs it.
type floors struct {
	mu  sync.Mutex
	all map[string]int64
}

// A floor is learned from an answer that shows the first entry of a queue, or that there was none
// ahead of an own entry. Each session learns its own: in another life places that were passed can
// come back with what an older server still had, until that life is blessed.

// mostFloors bounds the memory. Without a floor a statement is correct, and may be slower.
const mostFloors = 4096

func (f *floors) of(queue string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[queue]
}

func (f *floors) raise(queue string, place int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil || len(f.all) >= mostFloors {
		f.all = map[string]int64{}
	}
	f.all[queue] = max(f.all[queue], place)
}

// calls are calls whose marks in table done can be deleted: the next update of the session does.
type calls struct {
	mu  sync.Mutex
	all []int64
}

func (c *calls) add(call int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

func (c *calls) some() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all[:min(len(c.all), 100)])
}

func (c *calls) remove(done []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(call int64) bool { return slices.Contains(done, call) })
}

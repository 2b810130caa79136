package worker

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/wire"
)

// pace says how long jobs take.
type pace struct {
	mu   sync.Mutex
	work time.Duration
	job  time.Duration // the next job, if not 0
}

func newPace(work time.Duration) *pace { return &pace{work: work} }

// order takes in an Order.
func (p *pace) order(o wire.Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Work != 0 {
		p.work = o.Work
	}
	if o.Job != 0 {
		p.job = o.Job
	}
}

// next is how long the next job takes.
func (p *pace) next() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.job; d != 0 {
		p.job = 0
		return d
	}
	return p.work*3/4 + rand.N(p.work/2+1)
}

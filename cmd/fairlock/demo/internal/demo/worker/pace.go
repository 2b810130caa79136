package worker

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
)

// pace decides how long jobs take.
type pace struct {
	end chan struct{} // receives when the present job has to end; capacity 1

	mu   sync.Mutex
	work time.Duration
	job  time.Duration // length of the next job, if not 0
}

func newPace(work time.Duration) *pace { return &pace{end: make(chan struct{}, 1), work: work} }

// order applies an Order.
func (p *pace) order(o wire.Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Work != 0 {
		p.work = o.Work
	}
	if o.Job != 0 {
		p.job = o.Job
	}
	if o.End {
		select {
		case p.end <- struct{}{}:
		default: // an earlier order to end is still unread
		}
	}
}

// next returns how long the next job takes. It drops an earlier order to end, which was
// for a job that is over.
func (p *pace) next() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.end:
	default:
	}
	d := p.job
	if d != 0 {
		p.job = 0
		return d
	}
	return p.work*3/4 + rand.N(p.work/2+1)
}

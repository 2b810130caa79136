package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/ui"
)

// scene is a service as an operator may find it at night: a job that blocks others, a
// deadlock, readers, permits, an election, another program's entry without a session.
func scene(t *testing.T, o ui.Options) *site {
	t.Helper()
	o.Title = "etcd://db-1:2379,db-2:2379/locks"
	st := newSite(t, o)
	web := make([]*process, 6)
	for i := range web {
		web[i] = st.process(fmt.Sprintf("web-%d", i+1), 4100+i*17, "settle")
	}
	job := st.process("batch-2", 812, "nightly backup")
	jobs := "jobs/nightly"
	job.join(jobs, holds(47*time.Minute))
	for i, p := range web[:4] {
		p.join(jobs, waits(time.Duration(41-i*9)*time.Minute))
	}
	web[0].join("orders/settle", holds(1200*time.Millisecond))
	web[1].join("orders/settle", waits(900*time.Millisecond))
	web[2].join("orders/settle", waits(400*time.Millisecond))

	a, b := st.process("ledger-1", 77, "transfer"), st.process("ledger-2", 81, "transfer")
	a.join("account/17", holds(6*time.Minute))
	b.join("account/42", holds(6*time.Minute))
	a.join("account/42", waits(350*time.Second), having("account/17"))
	b.join("account/17", waits(349*time.Second), having("account/42"))
	web[4].join("account/17", waits(100*time.Second))

	gpu := func(n int64) claim { return kind("semaphore", driver.Weighted, n) }
	for i, n := range []int64{4, 3, 2, 1, 1, 4, 8} {
		p := st.process(fmt.Sprintf("train-%d", i+1), 900+i, "epoch 7")
		if i < 2 {
			p.join("gpu", gpu(n), limit(8), holds(time.Duration(90-i*20)*time.Second))
		} else {
			p.join("gpu", gpu(n), waits(time.Duration(70-i*8)*time.Second))
		}
	}
	web[0].join("config/prices", kind("rwlock", driver.Exclusive, 0), holds(8*time.Second))
	for _, p := range web[1:4] {
		p.join("config/prices", kind("rwlock", driver.Shared, 0), waits(6*time.Second))
	}
	web[4].join("config/prices", kind("rwlock", driver.Exclusive, 0), waits(2*time.Second))
	web[3].join("scheduler", kind("election", driver.Exclusive, 0), value("10.0.0.13:8080"), holds(26*time.Hour))
	web[4].join("scheduler", kind("election", driver.Exclusive, 0), value("10.0.0.14:8080"), waits(26*time.Hour-time.Second))
	memtest.PutForeign(st.store, "legacy/import", "fairlock/legacy/import/694d81417acd4713", false)
	return st
}

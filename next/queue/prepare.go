package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/next/driver"
)

// prepare does at the service what is to be done before a hold can be used. again reports
// that a place was lost, for no reason that the caller gave.
func (g *group) prepare(ctx context.Context) (again bool, err error) {
	if g.nonce == "" && !g.rs[0].Slots { // it has no records
		return false, nil
	}
	t := g.e.t
	inner, cancel := t.Within(ctx)
	defer cancel()
	for i, l := range g.ledgers {
		if l.kept && err == nil {
			err = g.enter(inner, i)
		}
	}
	if g.rs[0].Slots && err == nil {
		err = g.takeSlot(inner)
	}
	if err == nil {
		err = g.rest(inner)
	}
	switch {
	case err == nil:
		return false, nil
	case t.Context().Err() != nil:
		return true, g.rejoin(context.Cause(t.Context())) //nolint:contextcheck // why the term has ended
	case ctx.Err() != nil:
		return false, g.giveUp(ctx)
	case errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrSessionOver):
		g.e.s.Renew()
		again, err = true, g.rejoin(errPlaceLost)
	}
	g.clean()
	return again, err
}

// name returns the name of the request in records, with a prefix.
func (g *group) name(prefix string) []byte {
	if g.nonce == "" {
		g.nonce = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	}
	return []byte(prefix + g.nonce)
}

// rest lets the time pass in which a holder that died may still be at work.
func (g *group) rest(ctx context.Context) error {
	var d time.Duration
	for i, l := range g.ledgers {
		if l.past == door.PastDied {
			d = max(d, g.rs[i].Delay)
		}
	}
	if d == 0 {
		return nil
	}
	g.protect()
	timer := make(chan struct{})
	defer g.e.clock.AfterFunc(d, func() { close(timer) })()
	select {
	case <-timer:
		return nil
	case <-g.fell:
		return driver.ErrGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recordSlot begins the names of the records of slots. Such a record is bound to the
// session, and has the name of the request.
const recordSlot = "slot/"

// takeSlot asks for the slot whose number is that of the entries ahead, for which no
// other request asks that was granted at the same moment; then for the lowest free one.
func (g *group) takeSlot(ctx context.Context) error {
	en := g.entries[0]
	for n := en.count; ; {
		g.e.do(func() { g.slot = n }) // a release gives it back, also if no answer comes
		op := driver.Op{Record: recordSlot + strconv.Itoa(n), If: driver.Absent(), Value: g.name(""), Bound: true}
		results, err := g.update(ctx, 0, driver.UpdateRequest{Marks: driver.MarkAdmitted, Ops: []driver.Op{op}})
		if err == nil {
			g.slotToken = results[0].Record.Token
			return nil
		}
		if _, ok := errors.AsType[*driver.RefusedError](err); !ok {
			return err
		}
		v, err := g.e.s.Read(ctx, driver.ReadRequest{Queue: en.Queue, Nearest: 1, Records: []string{recordSlot}})
		if err != nil {
			return err //nolint:wrapcheck // the backend's own error
		}
		if r := v.Records[op.Record]; bytes.Equal(r.Value, op.Value) { // an earlier attempt got it
			g.slotToken = r.Token
			return nil
		}
		for n = 0; v.Records[recordSlot+strconv.Itoa(n)].Version != 0; n++ {
		}
	}
}

// undo returns the changes of records that go with an entry.
func (g *group) undo(i int, how strike) (ops []driver.Op) {
	if op, ok := g.ledgers[i].op(how); ok {
		ops = append(ops, op)
	}
	if g.slot >= 0 {
		ops = append(ops, driver.Op{Record: recordSlot + strconv.Itoa(g.slot), If: driver.Equal(g.name("")), Bound: true, Optional: true})
	}
	return ops
}

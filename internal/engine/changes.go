package engine

import (
	"context"
	"errors"
	"strconv"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// SetLimit gives a queue another limit. It writes also where the limit is the same: so
// what an earlier call has sent that was given up has no effect any more.
func (e *Engine) SetLimit(ctx context.Context, name string, limit int64) error {
	if err := e.CheckName(name); err != nil {
		return err
	}
	value := strconv.AppendInt(nil, limit, 10)
	for {
		t, err := e.Live(ctx)
		if err != nil {
			return err
		}
		err = swap(ctx, t.Driver(), t.Driver().Update, driver.UpdateRequest{Queue: name}, rule.RecordLimit, func([]byte) []byte { return value })
		if !errors.Is(err, driver.ErrSessionOver) || ctx.Err() != nil {
			return err
		}
		// The limit is no session's: another one can set it.
		t.Renew()
		driver.Sleep(ctx, e.info.Clock, minBackoff)
	}
}

// recordDone is the record of finished work.
const recordDone = "done"

// Done returns the record of finished work of a queue; nil if there is none. A caller that
// holds the lock gets what all holders before it have written.
func (e *Engine) Done(ctx context.Context, name string) ([]byte, error) {
	t, err := e.Live(ctx)
	if err != nil {
		return nil, err
	}
	r, err := readRecord(ctx, t.Driver(), name, recordDone)
	return r.Value, err
}

// MarkDone replaces the record of finished work of the hold's queue by what change makes of it,
// if the hold's entry is there at that moment. No other change is lost. change gets nil if there is
// no record, may be called several times, and returns nil to leave the record as it is.
func (h *Hold) MarkDone(ctx context.Context, change func([]byte) []byte) error {
	qs, ref := h.es.qs, h.es.group.Entries[0].Ref
	if h.t.Ended() != nil || qs.entry(ref) == nil {
		return driver.ErrGone
	}
	inTurn := func(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
		return h.es.update(ctx, 0, req)
	}
	return swap(ctx, qs.s, inTurn, driver.UpdateRequest{Queue: ref.Queue}, recordDone, change)
}

// updater is driver.Session's Update, or a call of it that is made in its turn.
type updater = func(context.Context, driver.UpdateRequest) ([]driver.Result, error)

// swap replaces a record by what change makes of it, only if it was not written since it
// was read: a condition on the value could be met by an older request that comes late. Two clients
// that change a record at once both succeed, one after the other: the second reads again.
//
//	the update returned                      then
//	nil                                      done
//	RefusedError: another client was faster  the record is read, if the answer did not show it, and changed again
//	another error                            returned: not known whether it was changed
func swap(ctx context.Context, s driver.Session, update updater, req driver.UpdateRequest, name string, change func([]byte) []byte) error {
	r, err := readRecord(ctx, s, req.Queue, name)
	for err == nil {
		value := change(r.Value)
		if value == nil {
			return nil
		}
		req.Ops = []driver.Op{{Record: name, If: driver.At(r.Version), Value: value}}
		_, err = update(ctx, req)
		refused, ok := errors.AsType[*driver.RefusedError](err)
		if !ok {
			return err
		}
		r, err = refusing(ctx, s, refused)
	}
	return err
}

// readRecord reads a record of a queue; a zero one if it is not there.
func readRecord(ctx context.Context, s driver.Session, queue, name string) (driver.Record, error) {
	v, err := s.Read(ctx, driver.ReadRequest{Queue: queue, Nearest: 1, Records: []string{name}})
	return v.Records[name], err //nolint:wrapcheck // the backend's own error
}

// refusing returns the record for which a request was refused.
func refusing(ctx context.Context, s driver.Session, refused *driver.RefusedError) (driver.Record, error) {
	if refused.Known {
		return refused.Record, nil
	}
	return readRecord(ctx, s, refused.Queue, refused.Op.Record)
}

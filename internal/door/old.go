package door

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	next "github.com/fairlock/fairlock/next/driver"
	"github.com/fairlock/fairlock/session/driver"
)

// oldBackend is a backend of the old contract, as this package sees it: it does what a
// Session needs, and no more. What the engine needs of the old contract it gets from
// oldSession.
type oldBackend struct{ driver.Backend }

// FromOld returns a backend of the old contract as package session sees it.
func FromOld(b driver.Backend) next.Backend { return oldBackend{b} }

// OldBackend returns the backend of the old contract that b was made of, nil if it was
// not.
func OldBackend(b next.Backend) driver.Backend {
	o, _ := b.(oldBackend)
	return o.Backend
}

// OldSession is OldBackend for a service session.
func OldSession(s next.Session) driver.Session {
	o, _ := s.(oldSession)
	return o.Session
}

// Info returns what the profile says.
func (b oldBackend) Info() next.Info {
	p := b.Profile()
	return next.Info{
		Service: p.Service, Clock: b.Clock(), MinTTL: p.MinTTL, Margin: p.Margin, MaxJoin: p.MaxAll, MaxData: p.MaxValue,
		Within: p.Within,
	}
}

// Open opens a service session. An observer needs none.
func (b oldBackend) Open(ctx context.Context, cfg next.Config) (next.Session, error) {
	if cfg.Observer {
		return oldSession{b: b.Backend}, nil
	}
	s, err := b.Backend.Open(ctx, driver.Config{
		TTL: cfg.TTL, Window: cfg.TTL - cfg.Margin(cfg.TTL), Margin: cfg.Margin, Proof: cfg.Renewed, Gone: cfg.Gone, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // the backend's own error
	}
	return oldSession{s, b.Backend}, nil
}

// oldSession is a service session of the old contract, or an observer, which has none.
type oldSession struct {
	driver.Session
	b driver.Backend
}

// Join sends a yield request: a Session joins no other queue.
func (s oldSession) Join(ctx context.Context, reqs ...next.JoinRequest) ([]next.Joined, error) {
	r := reqs[0]
	meta, _ := driver.DecodeMeta(r.Detail)
	j, err := s.Session.Join(ctx, driver.JoinRequest{Line: r.Queue, Meta: meta, Value: r.Data, Nearest: r.Nearest})
	if err != nil {
		return nil, err //nolint:wrapcheck // the backend's own error
	}
	return []next.Joined{{Entry: EntryFromOld(j.Entry)}}, nil
}

// Leave withdraws a yield request.
func (s oldSession) Leave(ctx context.Context, reqs ...next.LeaveRequest) ([]next.Left, error) {
	_, err := s.Session.Leave(ctx, driver.LeaveRequest{Ref: RefToOld(reqs[0].Ref)})
	return []next.Left{next.Unclear}, settledOld(err)
}

// settledOld takes what is gone for done.
func settledOld(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// Read lists a queue from its beginning, unless only its limit is wanted.
func (s oldSession) Read(ctx context.Context, req next.ReadRequest) (next.View, error) {
	var v next.View
	limited := !req.Detail
	if req.Detail {
		all, err := s.b.List(ctx, req.Queue, req.Nearest)
		if err != nil {
			return v, err //nolint:wrapcheck // the backend's own error
		}
		for _, e := range all {
			v.Entries = append(v.Entries, EntryFromOld(e))
			limited = limited || e.Mode == driver.Weighted && !e.Foreign
		}
	}
	if limited && slices.Contains(req.Records, "limit") {
		// After the queue, as the recipes do: it may have been made with it.
		n, err := s.b.Limit(ctx, req.Queue)
		if err != nil {
			return v, err //nolint:wrapcheck // the backend's own error
		}
		if n != 0 {
			v.Records = map[string]next.Record{"limit": {Value: strconv.AppendInt(nil, n, 10)}}
		}
	}
	return v, nil
}

// Update is not for a Session.
func (oldSession) Update(context.Context, next.UpdateRequest) ([]next.Result, error) {
	return nil, fmt.Errorf("%w: the backend is of the old contract", next.ErrRefused)
}

// Names lists names.
func (s oldSession) Names(ctx context.Context, prefix string) ([]string, error) {
	return s.b.Names(ctx, prefix) //nolint:wrapcheck // the backend's own error
}

// Watch watches a queue of yield requests.
func (s oldSession) Watch(t next.Target, f func(next.Event)) (cancel func()) {
	kinds := map[driver.EventKind]next.EventKind{driver.Armed: next.Armed, driver.Changed: next.Changed, driver.Gone: next.Gone, driver.Broken: next.Lost}
	req := driver.WatchRequest{Ref: driver.Ref{Line: t.Queue}, Of: driver.OfLine}
	return s.Session.Watch(req, func(ev driver.Event) { f(next.Event{Kind: kinds[ev.Kind]}) })
}

// Renew asks for a renewal.
func (s oldSession) Renew() { s.Prove() }

// Close closes the service session, if there is one.
func (s oldSession) Close(ctx context.Context) error {
	if s.Session == nil {
		return nil
	}
	return s.Session.Close(ctx) //nolint:wrapcheck // the backend's own error
}

// RefToOld returns the name of an entry in the old contract, RefFromOld in the next.
func RefToOld(r next.Ref) driver.Ref { return driver.Ref{Line: r.Queue, Key: r.Key, Place: r.Place} }

// RefFromOld is the inverse of RefToOld.
func RefFromOld(r driver.Ref) next.Ref { return next.Ref{Queue: r.Line, Key: r.Key, Place: r.Place} }

// EntryFromOld returns an entry of the old contract as the next one has it.
func EntryFromOld(e driver.Entry) next.Entry {
	out := next.Entry{
		Ref: RefFromOld(e.Ref), Mode: e.Mode, Weight: e.Weight, Foreign: e.Foreign, Unleased: e.Unleased,
		Token: e.Token, Session: e.Session, Data: e.Value, Valued: e.Value != nil && !e.Foreign,
	}
	if e.Admitted {
		out.Marks = next.MarkAdmitted
	}
	meta := e.Meta
	meta.Granted = e.Granted
	switch {
	case e.Foreign, reflect.DeepEqual(meta, driver.Meta{}):
	case out.Valued:
		out.Detail = meta.Encode()
	default:
		out.Data, out.Detail = e.Meta.Encode(), meta.Encode()
	}
	return out
}

// EntriesFromOld is EntryFromOld for a queue.
func EntriesFromOld(queue []driver.Entry) []next.Entry {
	all := make([]next.Entry, len(queue))
	for i := range queue {
		all[i] = EntryFromOld(queue[i])
	}
	return all
}

// EntryToOld is the inverse of EntryFromOld.
func EntryToOld(e next.Entry) driver.Entry {
	meta := MetaOf(&e)
	out := driver.Entry{
		Ref: RefToOld(e.Ref), Mode: e.Mode, Weight: e.Weight, Foreign: e.Foreign, Unleased: e.Unleased,
		Token: e.Token, Session: e.Session, Admitted: e.Marks.Has(next.MarkAdmitted), Granted: meta.Granted, Meta: meta,
	}
	out.Meta.Granted = time.Time{}
	if e.Shares() {
		out.Mode = next.Shared
	}
	if e.Valued || e.Foreign {
		out.Value = e.Data
	}
	return out
}

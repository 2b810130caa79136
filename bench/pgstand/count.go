package pgstand

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/bench/stand"
)

// The kinds of requests. Each is a round trip, also with several statements.
const (
	change   = iota // of a queue: joins, leaves, updates
	read            // states and queues
	listen          // LISTEN and UNLISTEN
	observe         // of the sessions that are waited for
	renewal         // of a session
	repeat          // of a peer that polls
	anything        // else
)

func requestKinds() []string {
	return []string{"change", "read", "listen", "observe", "renewal", "repeat", "other"}
}

// periodic are the kinds that are sent when nothing has happened.
var periodic = []int{observe, renewal, repeat}

// repeated is the key of a value of a context: whether a request only repeats the one before.
type repeated struct{}

// tracer counts the requests of the connections with its configuration.
type tracer struct{ *stand.Tally }

var (
	_ pgx.QueryTracer = tracer{}
	_ pgx.BatchTracer = tracer{}
)

// TraceQueryStart implements pgx.QueryTracer.
func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	kind := anything
	again, _ := ctx.Value(repeated{}).(bool)
	switch {
	case again:
		kind = repeat
	case strings.HasPrefix(d.SQL, "listen "), strings.HasPrefix(d.SQL, "unlisten "):
		kind = listen
	}
	t.Request(kind)
	t.Begin()
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (t tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { t.End() }

// TraceBatchStart implements pgx.BatchTracer.
func (t tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	t.Request(kindOf(d.Batch))
	t.Begin()
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (t tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (t tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) { t.End() }

// kindOf returns the kind of a batch of ours. Its last statement shows it: the one before may
// only take locks.
func kindOf(b *pgx.Batch) int {
	sql := b.QueuedQueries[len(b.QueuedQueries)-1].SQL
	switch {
	case strings.HasPrefix(sql, `update "fairlock"."session"`):
		return renewal
	case strings.HasPrefix(sql, "select s.id, s.version") && len(b.QueuedQueries) == 1:
		return observe
	case len(b.QueuedQueries) > 1:
		return change
	}
	return read
}

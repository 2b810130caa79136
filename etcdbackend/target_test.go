package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/watch"
	"github.com/fairlock/fairlock/session/driver"
)

func TestTargetsOfOneKindShareAWatch(t *testing.T) {
	qs := remembered()
	var own []driver.Ref
	for place := range int64(2) {
		o, _ := qs.reserve(&driver.JoinRequest{Queue: "x"})
		qs.made(o, 5+place, false, 0)
		own = append(own, o.ref)
	}
	entry := func(key string, place int64) driver.Target {
		return driver.Ref{Queue: "x", Key: "r/x/" + key, Place: place}.Target()
	}
	for _, c := range []struct {
		target driver.Target
		want   watch.Spec
	}{
		{entry("def.0", 4), watch.Spec{Key: "r/x/def.0"}},
		{entry("def.0.r", 4), watch.Spec{Key: "r/x/def.0.r"}},
		{entry("def.0.x", 4), watch.Spec{Key: "r/x/def.0.x", Puts: true}}, // it can become a reader
		{entry("def.0.w3", 4), watch.Spec{Key: "r/x/def.0.w3", Puts: true}},
		{entry("def.0.v", 4), watch.Spec{Key: "r/x/def.0.v", Puts: true}},
		{entry("by-hand", 4), watch.Spec{Key: "r/x/by-hand", Puts: true}},
		{entry("abc.0", 1), watch.Spec{Key: "r/x/abc.0"}}, // an earlier entry with that key
		{own[0].Target(), watch.Spec{Key: "r/x/abc.", End: "r/x/abc/"}},
		{own[1].Target(), watch.Spec{Key: "r/x/abc.", End: "r/x/abc/"}},
		{driver.Target{Kind: driver.OfQueue, Queue: "x"}, watch.Spec{Key: "r/x/", End: "r/x0", Puts: true}},
		{driver.Target{Kind: driver.OfHolders, Queue: "x"}, watch.Spec{Key: "r/x/", End: "r/x0", Puts: true, Prev: true}},
		{driver.Target{Kind: driver.OfRecord, Queue: "x", Record: "limit"}, watch.Spec{Key: "r/%v2/x/limit", Puts: true}},
	} {
		assert.Equal(t, c.want, qs.target(c.target).Spec)
	}
}

func TestTheWatchOfOwnEntriesCoversNoOther(t *testing.T) {
	qs := remembered()
	o, _ := qs.reserve(&driver.JoinRequest{Queue: "x"})
	qs.made(o, 5, false, 0)
	spec := qs.target(o.ref.Target()).Spec
	in := func(key string) bool { return key >= spec.Key && key < spec.End }
	for _, k := range []string{"r/x/abc.0", "r/x/abc.12.r", "r/x/abc.3.w7", "r/x/abc.3.v"} {
		assert.True(t, in(k), k)
	}
	for _, k := range []string{"r/x/abc", "r/x/abcd.0", "r/x/abc/1", "r/x/ab.0", "r/xy/abc.0"} {
		assert.False(t, in(k), k)
	}
}

func TestOnlyWrittenEntriesConcernAWatchOfHolders(t *testing.T) {
	put := func(version int64) *mvccpb.Event {
		return &mvccpb.Event{Kv: &mvccpb.KeyValue{Version: version}}
	}
	assert.False(t, ofHolder(put(1)), "one came")
	assert.True(t, ofHolder(put(2)), "one was marked")
	gone := func(before *mvccpb.KeyValue) *mvccpb.Event {
		return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{}, PrevKv: before}
	}
	assert.False(t, ofHolder(gone(&mvccpb.KeyValue{Version: 1})), "one that was never marked went")
	assert.True(t, ofHolder(gone(&mvccpb.KeyValue{Version: 2})))
	assert.True(t, ofHolder(gone(nil)), "its earlier state was compacted")
}

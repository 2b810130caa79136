package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

func TestOnlyTheEndsAheadConcern(t *testing.T) {
	upto := func(of driver.Aspect, place int64) driver.WatchRequest {
		return driver.WatchRequest{Of: of, Ref: driver.Ref{Place: place}}
	}
	ended := func(made int64) *mvccpb.Event {
		return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{ModRevision: 20}, PrevKv: &mvccpb.KeyValue{CreateRevision: made}}
	}
	assert.True(t, concerns(upto(driver.OfAdmitted, 10), ended(9)))
	assert.False(t, concerns(upto(driver.OfAdmitted, 10), ended(10)))
	assert.False(t, concerns(upto(driver.OfAdmitted, 10), ended(11)))
	assert.True(t, concerns(upto(driver.OfAdmitted, 0), ended(11)))
	unknown := &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{ModRevision: 20}}
	assert.True(t, concerns(upto(driver.OfAdmitted, 10), unknown), "its last state was compacted: perhaps")
	joined := &mvccpb.Event{Kv: &mvccpb.KeyValue{CreateRevision: 20, ModRevision: 20}}
	assert.False(t, concerns(upto(driver.OfLine, 10), joined))
	assert.True(t, concerns(upto(driver.OfLimit, 10), joined), "a limit has no place")
}

func TestWatchesOnOneTargetAreOne(t *testing.T) {
	s := &leased{b: &backend{lay: layout{root: "r"}}, id: 0xabc}
	ref := func(key string, place int64) driver.Ref {
		return driver.Ref{Line: "x", Key: "r/x/" + key, Place: place}
	}
	for _, c := range []struct {
		req  driver.WatchRequest
		want target
	}{
		{driver.WatchRequest{Ref: ref("def.0", 5)}, target{key: "r/x/def.0"}},
		{driver.WatchRequest{Ref: ref("def.0", 5), Changes: true}, target{key: "r/x/def.0", puts: true}},
		{driver.WatchRequest{Ref: ref("abc.0", 5), Own: true}, target{key: "r/x/abc.", end: "r/x/abc/"}},
		{driver.WatchRequest{Ref: ref("abc.1", 6), Own: true}, target{key: "r/x/abc.", end: "r/x/abc/"}},
		{driver.WatchRequest{Ref: ref("", 7), Of: driver.OfLine}, target{of: driver.OfLine, key: "r/x/", end: "r/x0", puts: true}},
		{driver.WatchRequest{Ref: ref("k", 8), Of: driver.OfAdmitted}, target{of: driver.OfAdmitted, key: "r/x/", end: "r/x0"}},
		{driver.WatchRequest{Ref: ref("k", 9), Of: driver.OfLimit}, target{of: driver.OfLimit, key: "r/%beside/x/limit", puts: true}},
	} {
		assert.Equal(t, c.want, s.target(c.req))
	}
}

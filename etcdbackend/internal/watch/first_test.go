package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/session/driver"
)

// followed is the target of the entry in entry, whose owner reports if it was first.
func followed() Target {
	t := entry(10)
	t.First = "first"
	return t
}

// following returns a Hub with a caller that watches it, and what that is sent.
func following(t *testing.T) (*Hub, *stream, *[]driver.Event) {
	h, st, _ := offline()
	got := h.events(followed())
	st.confirmed(t, h.lastID-1, 10)
	st.created(t, 10)
	return h, st, got
}

// elapse does what is due.
func (h *Hub) elapse() {
	for _, f := range h.Send.Clock.(*clock).due {
		f()
	}
}

// leaves are the two halves of what happens when that entry leaves: its key is deleted, and the
// other key is written. The watches were made in this order: the one on the other key is older.
func (st *stream) leaves(t *testing.T, place string, rev int64) (deleted, first func()) {
	id := st.h.lastID
	return func() { st.gone(t, "k", rev) }, func() {
		kv := &mvccpb.KeyValue{Key: []byte("first"), ModRevision: rev, Value: []byte(place)}
		st.message(t, &pb.WatchResponse{WatchId: id - 1, Header: &pb.ResponseHeader{Revision: rev}, Events: []*mvccpb.Event{{Kv: kv}}})
	}
}

func TestTheEndOfAnEntryThatWasFirstIsReportedOnce(t *testing.T) {
	for _, order := range []string{"the deletion comes first", "the deletion comes last"} {
		t.Run(order, func(t *testing.T) {
			h, st, got := following(t)
			deleted, first := st.leaves(t, "5", 11)
			if order == "the deletion comes last" {
				deleted, first = first, deleted
			}
			deleted()
			first()
			h.elapse()
			assert.Equal(t, []driver.Event{{Kind: driver.Armed}, {Kind: driver.Gone, First: true}}, *got)
			assert.Empty(t, h.withheld)
		})
	}
}

func TestTheEndOfAnEntryThatWasNotFirstIsReported(t *testing.T) {
	end := []driver.Event{{Kind: driver.Armed}, {Kind: driver.Gone}}
	for what, then := range map[string]func(t *testing.T, h *Hub, st *stream){
		"after a moment": func(_ *testing.T, h *Hub, _ *stream) {
			h.elapse()
		},
		"with a later event": func(t *testing.T, _ *Hub, st *stream) { st.put(t, "k", 12, 12, "") },
	} {
		t.Run(what, func(t *testing.T) {
			h, st, got := following(t)
			deleted, first := st.leaves(t, "4", 11)
			first() // of an earlier entry with the key
			deleted()
			assert.Len(t, *got, 1, "it may still be reported that it was first")
			then(t, h, st)
			assert.Equal(t, end, *got)
		})
	}
	t.Run("at once, if the other watch is not there", func(t *testing.T) {
		h, st, _ := offline()
		got := h.events(followed())
		st.created(t, 10)
		st.gone(t, "k", 11)
		assert.Equal(t, end, *got)
	})
}

// A login may be permitted to read the entries and not the other keys.
func TestWithoutPermissionForTheOtherKeyTheStreamStays(t *testing.T) {
	h, st, _ := offline()
	got := h.events(followed())
	denied := rpctypes.ErrorDesc(rpctypes.ErrGRPCPermissionDenied)
	st.message(t, &pb.WatchResponse{Created: true, Canceled: true, WatchId: -1, CancelReason: denied})
	st.created(t, 10)
	st.gone(t, "k", 11)
	assert.Equal(t, []driver.Event{{Kind: driver.Armed}, {Kind: driver.Gone}}, *got)
}

func TestBothWatchesOfAnEntryEnd(t *testing.T) {
	h, st, _ := offline()
	h.others("own", "other")
	h.Watch(followed(), func(driver.Event) {})()
	st.confirmed(t, h.lastID-1, 10)
	st.created(t, 10)
	require.Len(t, h.watches, 4)
	for i := range int64(maxUnused + 1) {
		deleted, first := st.leaves(t, "5", 11+i)
		deleted()
		first()
	}
	assert.Len(t, h.watches, 2)
}

package zkbackend

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

func testOps(known map[string]driver.Record, ops ...driver.Op) *opSet {
	s := &zkSession{b: &backend{lay: newLayout("/r", LayoutCurator)}}
	for name, r := range known {
		s.records.see(recordKey{"q", name}, r)
	}
	return newOps(s, &sender{}, "q", ops)
}

func TestAnOpRequiresWhatIsKnownOfItsRecord(t *testing.T) {
	eight := driver.Record{Value: []byte("8"), Version: 77, Token: 5}
	equal, either := driver.Equal([]byte("8")), driver.EqualOrAbsent([]byte("8"))
	for _, c := range []struct {
		name       string
		cond       driver.Cond
		record     *driver.Record
		want       basis
		met, known bool
	}{
		{"Absent", driver.Absent(), &eight, basis{}, true, true},
		{"At", driver.At(5), &eight, basis{version: 5}, true, true},
		{"Equal of an unknown one", equal, nil, basis{}, false, false},
		{"Equal", equal, &eight, basis{version: 77}, true, true},
		{"Equal of another, which may be old", driver.Equal([]byte("9")), &eight, basis{}, false, false},
		{"Equal of none, which may be old", equal, &driver.Record{}, basis{}, false, false},
		{"EqualOrAbsent of an unknown one", either, nil, basis{}, false, false},
		{"EqualOrAbsent", either, &eight, basis{version: 77, keep: true}, true, true},
		{"EqualOrAbsent of none", either, &driver.Record{}, basis{}, true, true},
		{"EqualOrAbsent of another, which may be old", driver.EqualOrAbsent([]byte("9")), &eight, basis{}, false, false},
	} {
		known := map[string]driver.Record{}
		if c.record != nil {
			known["limit"] = *c.record
		}
		o := testOps(known, driver.Op{Record: "limit", If: c.cond, Value: []byte("8")})
		b, met, isKnown := o.require(0)
		assert.Equal(t, c.want, b, c.name)
		assert.Equal(t, c.met, met, c.name)
		assert.Equal(t, c.known, isKnown, c.name)
		if !c.known {
			o.plans[0].fresh = true
			_, _, isKnown = o.require(0)
			assert.True(t, isKnown, "%s: once it was read", c.name)
		}
	}
}

func TestAVersionIsRequiredByItsNode(t *testing.T) {
	o := testOps(nil, driver.Op{Record: "slot/0", If: driver.At(35), Value: []byte("mine"), Bound: true})
	o.plans[0].version = 36
	var paths []string
	for _, st := range o.steps(0) {
		switch r := st.req.(type) {
		case *zk.DeleteRequest:
			paths = append(paths, "delete "+r.Path)
		case *zk.CreateRequest:
			paths = append(paths, "create "+r.Path)
			assert.EqualValues(t, zk.FlagEphemeral, r.Flags, "it is bound")
		case *zk.SetDataRequest:
			paths = append(paths, "write "+r.Path)
			assert.Equal(t, "mine\n#10", string(r.Data))
		}
	}
	assert.Equal(t, []string{
		"delete /r/%v2/q/records/slot%2F0@z", "delete /r/%v2/q/records/slot%2F0",
		"create /r/%v2/q/records/slot%2F0", "create /r/%v2/q/records/slot%2F0@10", "write /r/%v2/q/records/slot%2F0",
	}, paths)
}

func TestAnUndoDeletesWhatTheJoinHasMadeByItsVersion(t *testing.T) {
	o := testOps(nil,
		driver.Op{Record: "ledger", If: driver.Absent(), Value: []byte("mine")},
		driver.Op{Record: "limit", If: driver.EqualOrAbsent([]byte("8")), Value: []byte("8")},
		driver.Op{Record: "done", If: driver.At(3), Value: []byte("x")})
	require.Empty(t, o.undo(), "nothing was sent")
	o.steps(0)
	o.done(9)
	assert.Equal(t, []driver.Op{{Record: "ledger", If: driver.At(o.plans[0].version)}}, o.undo())
	assert.Equal(t, driver.Result{Done: true, Record: driver.Record{Value: []byte("mine"), Version: o.plans[0].version, Token: 9}}, o.results()[0])
	r, _ := o.s.records.get(recordKey{"q", "ledger"})
	assert.EqualValues(t, 9, r.Token, "and is known from then on")
}

func TestAnOlderAnswerDoesNotReplaceANewerOne(t *testing.T) {
	var n knownRecords
	k := recordKey{"q", "limit"}
	n.see(k, driver.Record{Version: 2, Token: 20})
	n.see(k, driver.Record{Version: 1, Token: 10})
	r, _ := n.get(k)
	assert.EqualValues(t, 2, r.Version)
	n.see(k, driver.Record{})
	r, ok := n.get(k)
	assert.True(t, ok)
	assert.Zero(t, r.Version, "that it is not there has no token")
}

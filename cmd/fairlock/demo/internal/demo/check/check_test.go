package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
)

// at returns the time ms milliseconds after 0.
func at(ms int64) stamp.Stamp { return stamp.Stamp(ms * int64(time.Millisecond)) }

// good is a history without violations: ada, then bob, which is killed, then dan, which is
// stopped, then eve, then ada.
func good() *History {
	return &History{
		Terms: Terms{Service: "etcd", Key: "key", Lease: "lease"},
		Grants: []Grant{
			{Worker: "ada", Token: 2, Joined: at(1), At: at(2), End: at(10), How: Released},
			{Worker: "bob", PID: 7, Token: 3, Joined: at(3), At: at(11), End: at(20), How: Killed},
			{Worker: "dan", PID: 8, Token: 5, Joined: at(4), At: at(2020), End: at(2030), How: Stopped},
			{Worker: "eve", Token: 6, Joined: at(5), At: at(4030), End: at(4040), How: Released},
			{Worker: "ada", Token: 9, Joined: at(12), At: at(4042), End: at(4050), How: Released},
		},
		Entries: []Entry{
			{Token: 9, Deleted: 13},
			{Token: 2, Deleted: 4},
			{Token: 3, Deleted: 7},
			{Token: 5, Deleted: 10},
			{Token: 6, Deleted: 11},
		},
		Heads: []Head{{Token: 2, First: 2}, {Token: 3, First: 3}, {Token: 5, First: 5}, {Token: 6, First: 6}, {Token: 9, First: 9}},
		Writes: []ledger.Entry{
			{Token: 2, Worker: "ada", Balance: 1},
			{Token: 6, Worker: "eve", Balance: 2},
			{Token: 9, Worker: "ada", Balance: 3},
		},
		Refused: []ledger.Refusal{{Token: 5, Worker: "dan", Write: true, Highest: 9}},
		Kill:    Kill{Worker: "bob", PID: 7, Token: 3, At: at(19), Reaped: at(20), Present: true, Deleted: at(2019)},
		Stop:    Stop{Worker: "dan", PID: 8, Token: 5, At: at(2029), Stopped: at(2030), Deleted: at(4029), Woken: at(5000), Late: true, Why: "lost"},
	}
}

func TestGoodHistoryHasNoViolations(t *testing.T) {
	r := Verify(good())

	require.Empty(t, r.Violations())
	assert.True(t, r.Kept())
	assert.Equal(t, 5, r.Grants)
	assert.Equal(t, 3, r.Writes)
	assert.Equal(t, 1, r.Refused)
	assert.EqualValues(t, 9, r.High)
	assert.Equal(t, 2001*time.Millisecond, r.KillMoved)
	assert.Equal(t, 2001*time.Millisecond, r.StopMoved)
	assert.Equal(t, 2, r.Handoffs, "ada to bob, and eve to ada; after a fault there is none")
	assert.InEpsilon(t, float64(time.Millisecond), float64(r.P50), 0.01)
	assert.InEpsilon(t, float64(2*time.Millisecond), float64(r.P99), 0.01)
}

// TestPlantedViolationsAreFound changes the good history in one way at a time.
func TestPlantedViolationsAreFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*History)
		want  string
	}{
		{"overlap by an instant", func(h *History) { h.Grants[0].End = at(11) + 1 }, "bob held with token 3 while ada held with token 2"},
		{"overlap with one long before", func(h *History) { h.Grants[0].End = at(4041) }, "eve held with token 6 while ada held with token 2"},
		{"overlap with one that never ends", func(h *History) { h.Grants[1].How = Open }, "dan held with token 5 while bob held with token 3"},
		{"tokens fall", func(h *History) { h.Grants[3].Token, h.Grants[4].Token = 9, 6 }, "ada was granted token 6 after eve was granted 9"},
		{"same token twice", func(h *History) { h.Grants[4].Token = 6 }, "ada was granted token 6 after eve was granted 6"},
		{"entry ahead in the service", func(h *History) { h.Heads[3].First = 5 }, "eve held with token 6 while 5 was ahead of it in the service"},
		{"waiter is overtaken", func(h *History) { h.Entries = append(h.Entries, Entry{Token: 8, Deleted: 14}) }, "ada overtook: token 9 was granted and deleted while 8 was ahead of it in the service"},
		{"entry that stays is overtaken", func(h *History) { h.Entries = append(h.Entries, Entry{Token: 8}) }, "ada overtook: token 9 was granted and deleted while 8 was ahead of it in the service"},
		{"token without an entry", func(h *History) { h.Entries = h.Entries[1:] }, "ada was granted token 9, which the service never reported"},
		{"lower token accepted", func(h *History) { h.Writes[1].Token = 10 }, "the ledger accepted token 9 of ada after 10 of eve"},
		{"update lost", func(h *History) { h.Writes[2].Balance = 2 }, "ada wrote balance 2 over 2: an update was lost"},
		{"first update lost", func(h *History) { h.Writes = h.Writes[1:] }, "eve wrote balance 2 over 0: an update was lost"},
		{"no writes", func(h *History) { h.Writes = nil }, "no worker wrote the ledger"},
		{"service not asked", func(h *History) { h.Heads = nil }, "the service was never asked for the first entry"},
		{"late write accepted", func(h *History) { h.Refused = nil }, "the late write of the stopped worker was not refused"},
		{"only a late read refused", func(h *History) { h.Refused[0].Write = false }, "the late write of the stopped worker was not refused"},
		{"careful write refused", func(h *History) {
			h.Grants[3].How = Lost
			h.Refused = append(h.Refused, ledger.Refusal{Token: 6, Worker: "eve", Write: true})
		}, "the ledger refused token 6 of eve, although it was not notified that it had lost the lock"},
		{"live hold refused", func(h *History) { h.Refused = append(h.Refused, ledger.Refusal{Token: 6, Worker: "eve"}) }, "the ledger refused token 6 of eve, although it was not notified that it had lost the lock"},
		{"no holder killed", func(h *History) { h.Kill = Kill{} }, "no holder was killed"},
		{"killed by something else", func(h *History) { h.Kill.Reaped = 0 }, "bob was not seen to die of SIGKILL"},
		{"entry deleted before the kill", func(h *History) { h.Kill.Present = false }, "bob was not in the queue any more when it was killed: nothing was left to expire"},
		{"entry of the killed holder stays", func(h *History) { h.Kill.Deleted = 0 }, "the entry of bob, which was killed, was not deleted"},
		{"no holder stopped", func(h *History) { h.Stop = Stop{} }, "no holder was stopped"},
		{"not stopped", func(h *History) { h.Stop.Stopped = 0 }, "dan was not seen to be stopped"},
		{"not woken", func(h *History) { h.Stop.Woken = 0 }, "dan was not woken"},
		{"woken too early", func(h *History) { h.Stop.Woken = at(4000) }, "the lease of dan did not run out while it was stopped"},
		{"no grant while it was stopped", func(h *History) { h.Stop.Woken = at(4030) }, "the queue did not move on while dan was stopped"},
		{"loss not noticed", func(h *History) { h.Stop.Late = false }, "dan did not find its lock lost when it was woken"},
		{"valid after waking", func(h *History) { h.Stop.Valid = time.Second }, "dan, just woken, still called its hold valid for 1s"},
		{"no grant after the kill", func(h *History) { h.Grants = h.Grants[:2] }, "the queue did not move on after bob was killed"},
		{"key left", func(h *History) { h.Leftovers.Keys = []string{"a", "b"} }, "left behind in etcd, keys: 2: a b"},
		{"lease left", func(h *History) { h.Leftovers.Leases = 2 }, "left behind in etcd, leases: 2"},
		{"process left", func(h *History) { h.Leftovers.Processes = 3 }, "left behind, processes: 3"},
		{"no hand-off", func(h *History) {
			for i := range h.Grants {
				h.Grants[i].Joined = 0
			}
		}, "no hand-off was measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := good()
			c.spoil(h)

			r := Verify(h)

			assert.Contains(t, r.Violations(), c.want)
			assert.False(t, r.Kept())
		})
	}
}

func TestHistoryNeedNotBeInOrder(t *testing.T) {
	h := good()
	h.Grants[0], h.Grants[4] = h.Grants[4], h.Grants[0]
	h.Entries[0], h.Entries[3] = h.Entries[3], h.Entries[0]

	assert.Empty(t, Verify(h).Violations())
}

func TestWaiterThatGaveUpIsNotOvertaken(t *testing.T) {
	h := good()
	h.Entries = append(h.Entries, Entry{Token: 8, Deleted: 12})

	assert.Empty(t, Verify(h).Violations())
}

func TestCarelessWorkerMayBeRefusedWithALostHold(t *testing.T) {
	h := good()
	h.Grants[0].Worker, h.Grants[0].How = "dan", Lost
	h.Refused = append(h.Refused, ledger.Refusal{Token: 2, Worker: "dan", Write: true})

	r := Verify(h)

	assert.Empty(t, r.Violations())
	assert.Equal(t, 2, r.Refused)
}

func TestEmptyHistoryIsNotAsPromised(t *testing.T) {
	r := Verify(&History{})

	assert.False(t, r.Kept())
	assert.Zero(t, r.P50)
}

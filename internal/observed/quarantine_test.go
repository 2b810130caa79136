package observed

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// text describes a verdict on what an answer has shown; "*" is a new tag.
func text(v Verdict, shown Store) string {
	switch {
	case v.Step == Blessed && v == Verdict{Step: Blessed}:
		return "blessed"
	case v.Step == ClaimIt && v.Claim == shown.Claim:
		return "claim again " + v.Claim
	case v.Step == ClaimIt && claims(v.Claim, shown.Server):
		return "claim " + shown.Server + " *"
	case v.Step == Wait && v.For > 0:
		return fmt.Sprintf("wait %s: %s", v.For, v.Claim)
	case v.Step == Bless:
		return "bless " + v.Claim
	}
	return fmt.Sprintf("%#v", v)
}

func TestVerdicts(t *testing.T) {
	const unproven = true
	type step struct {
		at       int // the second at which the answer is received
		shown    Store
		want     string
		unproven bool
	}
	store := func(server, stored, claim string) Store {
		return Store{Server: server, Stored: stored, Claim: claim, MaxTTL: ttl}
	}
	longer := func(s Store) Store {
		s.MaxTTL = 2 * ttl
		return s
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"blessed", []step{{0, store("2", "2", ""), "blessed", false}}},
		{"blessed, whatever claim was left", []step{{0, store("2", "2", "2 a"), "blessed", unproven}}},
		{"promoted", []step{
			{0, store("2", "1", ""), "claim 2 *", false},
			{1, store("2", "1", "2 a"), "wait 10s: 2 a", false},
			{7, store("2", "1", "2 a"), "wait 4s: 2 a", false},
			{11, store("2", "1", "2 a"), "bless 2 a", false},
			{12, store("2", "1", "2 a"), "bless 2 a", false},
			{13, store("2", "2", ""), "blessed", false},
		}},
		{"empty", []step{{0, store("2", "", ""), "claim 2 *", false}}},
		{"a claim of the life before", []step{{0, store("3", "1", "2 a"), "claim 3 *", false}}},
		{"promoted again during a count", []step{
			{0, store("2", "1", "2 a"), "wait 10s: 2 a", false},
			{5, store("3", "1", "2 a"), "claim 3 *", false},
			{6, store("3", "1", "3 b"), "wait 10s: 3 b", false},
			{11, store("3", "1", "3 b"), "wait 5s: 3 b", false},
			{16, store("3", "1", "3 b"), "bless 3 b", false},
		}},
		{"another claim of this life begins another count", []step{
			{0, store("2", "1", "2 a"), "wait 10s: 2 a", false},
			{10, store("2", "", "2 b"), "wait 10s: 2 b", false},
			{15, store("2", "", "2 a"), "wait 10s: 2 a", false},
		}},
		{"an answer from before the claim leaves its count alone", []step{
			{0, store("2", "1", "2 a"), "wait 10s: 2 a", false},
			{1, store("2", "1", ""), "claim 2 *", false},
			{2, store("2", "1", "2 a"), "wait 8s: 2 a", false},
		}},
		{"an answer that is older than the first of the count", []step{
			{5, store("2", "1", "2 a"), "wait 10s: 2 a", false},
			{4, store("2", "1", "2 a"), "wait 11s: 2 a", false},
		}},
		{"blessed, and back to the claim", []step{
			{0, store("2", "1", "2 a"), "wait 10s: 2 a", false},
			{20, store("2", "2", ""), "blessed", false},
			{30, store("2", "1", "2 a"), "wait 10s: 2 a", false},
		}},
		{"the greatest TTL rises during the count", []step{
			{0, store("2", "1", "2 a"), "wait 10s: 2 a", false},
			{5, longer(store("2", "1", "2 a")), "wait 15s: 2 a", false},
			{12, store("2", "1", "2 a"), "wait 8s: 2 a", false},
			{20, store("2", "1", "2 a"), "bless 2 a", false},
		}},
		{"the greatest TTL was greater in the old life", []step{
			{0, longer(store("1", "1", "")), "blessed", false},
			{1, store("2", "1", "2 a"), "wait 20s: 2 a", false},
		}},
		{"unproven", []step{
			{0, store("2", "1", ""), "claim 2 *", unproven},
			{1, store("2", "1", "2 a"), "claim again 2 a", unproven},
			{15, store("2", "1", "2 a"), "claim again 2 a", unproven},
			{20, store("2", "1", "2 a"), "wait 10s: 2 a", false},
			{25, store("2", "1", "2 a"), "wait 5s: 2 a", unproven},
			{30, store("2", "1", "2 a"), "bless 2 a", unproven},
			{31, store("2", "1", "2 b"), "claim again 2 b", unproven},
		}},
		{"a life with spaces", []step{
			{0, store("a b", "a", "a b"), "claim a b *", false},
			{1, store("a", "", "a b c"), "claim a *", false},
			{2, store("a b", "a", "a b c"), "wait 10s: a b c", false},
		}},
		{"a claim without a tag is none", []step{{0, store("2", "1", "2 "), "claim 2 *", false}, {0, store("2", "1", "2"), "claim 2 *", false}}},
		{"no life: the answer is not of use", []step{
			{0, store("", "", ""), "wait 1m0s: ", false},
			{90, store("", "", " a"), "wait 1m0s:  a", false},
		}},
		{"no greatest TTL: nothing can be counted", []step{
			{0, Store{Server: "2", Claim: "2 a"}, "wait 1m0s: 2 a", false},
			{90, Store{Server: "2", Claim: "2 a"}, "wait 1m0s: 2 a", false},
		}},
	} {
		var q Quarantine
		for _, s := range c.steps {
			s.shown.Unproven = s.unproven

			v := q.Judge(at(s.at), s.shown)

			assert.Equal(t, s.want, text(v, s.shown), "%s, second %d", c.name, s.at)
		}
	}
}

func TestEachClaimHasATagOfItsOwn(t *testing.T) {
	var q Quarantine
	unclaimed := Store{Server: "2", Stored: "1", MaxTTL: ttl}

	one, two := q.Judge(at(0), unclaimed).Claim, q.Judge(at(0), unclaimed).Claim

	assert.NotEqual(t, one, two)
	assert.True(t, claims(one, "2"), one)
}

func TestErrCountsDown(t *testing.T) {
	var q Quarantine
	unclaimed := Store{Server: "2", Stored: "1", MaxTTL: ttl}
	claimed := Store{Server: "2", Stored: "1", Claim: "2 a", MaxTTL: ttl}
	left := func(second int) time.Duration {
		left, waits := q.Left(at(second))
		require.True(t, waits)
		require.ErrorIs(t, q.Err(at(second)), driver.ErrUnavailable)
		require.ErrorContains(t, q.Err(at(second)), left.String())
		return left
	}
	_, waits := q.Left(at(0))
	assert.False(t, waits)
	require.NoError(t, q.Err(at(0)), "no answer has come yet")

	q.Judge(at(0), unclaimed)
	assert.Equal(t, ttl, left(5), "the count has not begun")
	q.Judge(at(6), claimed)
	assert.Equal(t, 8*time.Second, left(8))
	assert.Zero(t, left(16))
	assert.Zero(t, left(20))

	q.Judge(at(20), Store{Server: "3", Stored: "1", Claim: "2 a", MaxTTL: ttl})
	assert.Equal(t, ttl, left(20), "what was counted is of another life")

	q.Judge(at(21), Store{Server: "3", Stored: "3", MaxTTL: ttl})
	_, waits = q.Left(at(21))
	assert.False(t, waits)
	require.NoError(t, q.Err(at(21)))
}

func TestErrOfAnEmptyStoreNamesNoFailover(t *testing.T) {
	var q Quarantine

	q.Judge(at(0), Store{Server: "2", MaxTTL: ttl})
	require.ErrorContains(t, q.Err(at(0)), "it is new or has lost its data, and grants nothing for another 10s")

	q.Judge(at(1), Store{Server: "2", Stored: "1", MaxTTL: ttl})
	require.ErrorContains(t, q.Err(at(1)), "it has failed over or lost data, and grants nothing for another 10s")
}

// counts has a client judge what the store shows now, carry out the verdict if that is to claim or to
// bless, and so on until it has to wait or the store is blessed. It returns the last verdict.
func (c *client) counts() Verdict {
	for range 10 {
		shown := c.shown()
		v := c.quarantine.Judge(c.now(), shown)
		switch v.Step {
		case ClaimIt:
			c.claimIt(shown, v.Claim)
		case Bless:
			c.bless(shown, v.Claim)
		default:
			return v
		}
	}
	panic("the verdicts lead nowhere")
}

// opens opens a session in the present life, without a request on its way.
func (c *client) opens() *owned {
	c.n++
	s := &owned{id: fmt.Sprint(c.name, c.n), life: c.life, of: c, deadline: c.now().Add(ttl - margin)}
	c.insert(s)
	c.sessions = append(c.sessions, s)
	return s
}

// promote makes a server with the data of the standby the primary.
func (w *world) promote() {
	w.lives++
	w.life = fmt.Sprint("life ", w.lives)
	w.data = w.standby.clone()
}

// empty deletes all data.
func (w *world) empty() { w.data = data{versions: map[string]int64{}} }

// clients returns clients of a world with exact clocks.
func clients(w *world) (p, q, r *client) {
	of := func(name string, ahead time.Duration) *client { return &client{world: w, name: name, ahead: ahead} }
	return of("p", time.Hour), of("q", 30*time.Hour), of("r", time.Second)
}

func TestTwoClaimersCountOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p, q, _ := clients(w)
		w.promote()
		first := p.counts()
		require.Equal(t, Wait, first.Step)
		time.Sleep(4 * time.Second)

		second := q.counts()

		assert.Equal(t, first.Claim, second.Claim, "another one would begin the count of the first again")
		assert.Equal(t, ttl, second.For, "the second counts for itself")
		time.Sleep(6 * time.Second)
		assert.Equal(t, Verdict{Step: Blessed}, p.counts())
		assert.Equal(t, Verdict{Step: Blessed}, q.counts(), "one blesses for all")
		assert.Empty(t, w.wrong)
	})
}

func TestAClaimOfAnotherClientIsCountedFromItsReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p, q, r := clients(w)
		w.promote()
		p.counts() // and dies
		time.Sleep(ttl - time.Second)
		w.empty()
		r.counts() // claims anew
		time.Sleep(ttl / 2)

		v := q.counts()

		assert.Equal(t, ttl, v.For)
		time.Sleep(ttl / 2)
		assert.Equal(t, ttl/2, q.counts().For)
		assert.Equal(t, Blessed, r.counts().Step)
		assert.Empty(t, w.wrong)
	})
}

func TestAStoreThatIsEmptiedTwiceWaitsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p, q, r := clients(w)
		w.empty()
		q.counts()
		p.counts() // counts what q has claimed, and never learns that it is blessed
		time.Sleep(ttl)
		require.Equal(t, Blessed, q.counts().Step)
		holder := q.opens()
		w.empty()
		r.counts()

		v := p.counts()

		assert.True(t, holder.trusts())
		assert.Equal(t, Wait, v.Step)
		assert.Equal(t, ttl, v.For)
		time.Sleep(ttl)
		assert.Equal(t, Blessed, p.counts().Step)
		assert.Empty(t, w.wrong)
	})
}

func TestABlessThatArrivesLateBlessesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p, q, r := clients(w)
		w.empty()
		p.counts()
		q.counts()
		time.Sleep(ttl)
		shown := p.shown()
		late := p.quarantine.Judge(p.now(), shown)
		require.Equal(t, Bless, late.Step)
		require.Equal(t, Blessed, q.counts().Step)
		q.opens()
		w.empty()
		r.counts()

		answer := p.bless(shown, late.Claim)

		assert.Empty(t, answer.Stored)
		assert.Equal(t, Wait, p.quarantine.Judge(p.now(), answer).Step)
		assert.Empty(t, w.wrong)
	})
}

func TestAPromotionDuringACountBeginsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p, q, _ := clients(w)
		w.promote()
		p.counts()
		w.standby = w.clone() // with the claim of life 2
		time.Sleep(ttl)
		require.Equal(t, Blessed, p.counts().Step)
		holder := p.opens()
		w.promote() // the standby has not seen that life 2 is blessed

		v := q.counts()

		assert.True(t, holder.trusts())
		assert.Equal(t, Wait, v.Step)
		assert.True(t, claims(v.Claim, "life 3"), v.Claim)
		time.Sleep(ttl / 2)
		assert.Equal(t, ttl, p.counts().For, "p has counted a claim of life 2 only")
		time.Sleep(ttl)
		assert.Equal(t, Blessed, p.counts().Step)
		assert.Empty(t, w.wrong)
	})
}

func TestAnEmptyStoreIsNotTakenForANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p, q, _ := clients(w)
		holder := p.opens()
		time.Sleep(time.Second)
		w.empty()

		v := q.counts()

		assert.True(t, holder.trusts())
		assert.Equal(t, Wait, v.Step)
		time.Sleep(ttl)
		assert.Equal(t, Blessed, q.counts().Step)
		assert.Empty(t, w.wrong)
	})
}

// An opening has less time than a quarantine takes.
func TestAnOpeningGoesOnWithTheCountOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p, _, _ := clients(w)
		w.promote()
		for second := range int(ttl / time.Second) {
			v := p.counts() // and the opening gives up
			require.Equal(t, ttl-time.Duration(second)*time.Second, v.For)
			time.Sleep(time.Second)
		}

		assert.Equal(t, Blessed, p.counts().Step)
		assert.Empty(t, w.wrong)
	})
}

// Three servers, of which two have to acknowledge a renewal, or the claim. The old master and the new
// one serve at the same time, and the third follows the old one for a while.
func TestACountBeginsWhenAMajorityHasLeftTheOldLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const moves = 3 * ttl / 2
		began := time.Now()
		old, promoted := newWorld(), newWorld()
		holder, _, _ := clients(old)
		p, q, _ := clients(promoted)
		promoted.promote()
		s := holder.opens()
		ask := func(c *client, write func()) Store {
			write()
			shown := c.shown()
			shown.Unproven = time.Since(began) < moves
			return shown
		}
		for blessed := false; !blessed; time.Sleep(time.Second) {
			if time.Since(began) < moves && s.trusts() {
				s.deadline = holder.now().Add(ttl - margin)
			}
			for _, c := range []*client{p, q} {
				seen := ask(c, func() {})
				v := c.quarantine.Judge(c.now(), seen)
				if v.Step == ClaimIt {
					shown := ask(c, func() { c.claimIt(seen, v.Claim) })
					v = c.quarantine.Judge(c.now(), shown)
				}
				blessed = blessed || v.Step == Bless
			}
			require.False(t, blessed && s.trusts())
			require.Less(t, time.Since(began), 10*ttl)
		}

		assert.Equal(t, moves+ttl, time.Since(began)-time.Second)
	})
}

package demo

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/journal"
	"github.com/fairlock/fairlock/session/driver"
)

// heard is a listener that writes down what it is told.
type heard []string

func (h *heard) put(p place)           { *h = append(*h, fmt.Sprintf("put %d %s", p.token, p.meta.Label)) }
func (h *heard) gone(token, rev int64) { *h = append(*h, fmt.Sprintf("gone %d by %d", token, rev)) }
func (h *heard) marked()               { *h = append(*h, "marked") }
func (h *heard) fail(err error)        { *h = append(*h, err.Error()) }

func TestWhatTheServerLoggedIsToldAsTheLineAndNothingElse(t *testing.T) {
	const line = "/fairlock/ledger"
	meta := func(label string) []byte { return driver.Meta{Label: label}.Encode() }
	var h heard
	live := map[string]int64{}
	for _, txn := range []journal.Txn{
		{Zxid: 2, Ops: []journal.Op{{Created: true, Path: "/fairlock"}}},
		{Zxid: 3, Ops: []journal.Op{{Created: true, Path: line}}},
		{Zxid: 4, Ops: []journal.Op{{Created: true, Path: line + "/x-lock-0000000000", Data: meta("ada")}}},
		{Zxid: 5, Ops: []journal.Op{{Created: true, Path: line + "/y-lock-0000000001", Data: meta("bob")}}},
		{Zxid: 6, Ops: []journal.Op{{Created: true, Path: line + "s/z-lock-0000000000", Data: meta("eve")}}},
		{Zxid: 7, Ops: []journal.Op{{Path: line + "/y-lock-0000000001"}, {Path: line + "s/z-lock-0000000000"}, {Path: line + "/x-lock-0000000000"}}},
		{Zxid: 8, Ops: []journal.Op{{Path: line}}},
		{Zxid: 9, Ops: []journal.Op{{Created: true, Path: endNode}}},
	} {
		(&zkStore{line: line}).tell(&h, live, txn)
	}

	assert.Equal(t, heard{"put 4 ada", "put 5 bob", "gone 5 by 7", "gone 4 by 7", "marked"}, h)
	assert.Empty(t, live)
}

func TestTheFirstInALineIsTheLowestNumberWhateverStandsBeforeIt(t *testing.T) {
	names := []string{"0a-lock-0000000010", "ff-lock-0000000009", "short"}

	slices.SortFunc(names, bySequence)

	assert.Equal(t, []string{"ff-lock-0000000009", "0a-lock-0000000010", "short"}, names)
}

func TestEveryServiceHasANameAndTerms(t *testing.T) {
	assert.Equal(t, []string{"etcd", "zk"}, Services())
	for _, name := range Services() {
		s, err := serviceOf(name)

		assert.NoError(t, err)
		assert.NotContains(t, []string{s.terms.Service, s.terms.Key, s.terms.Lease}, "")
	}
	_, err := serviceOf("consul")
	assert.EqualError(t, err, `no service is called "consul": there is etcd, zk`)
}

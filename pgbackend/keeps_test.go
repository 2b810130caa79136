package pgbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

func TestTheStandbysThatACommitWaitsForAreReadFromTheSetting(t *testing.T) {
	for setting, want := range map[string][2]int{
		"": {0, 0}, " ": {0, 0}, "s1": {1, 1}, "s1, s2": {1, 2}, "*": {1, 1}, "2 (s1, s2, s3)": {2, 3}, "FIRST 1 (s1,\"S 2\")": {1, 2},
		"any 2(a,b,c,d)": {2, 4}, "ANY 2 (*)": {2, 2}, "ANY 1 (own, s1, s2)": {1, 2}, "s1,S1": {1, 1}, "ANY x (a)": {0, 0},
	} {
		awaited, named := awaits(setting, "own")

		assert.Equal(t, want, [2]int{awaited, named}, "%q", setting)
	}
}

func TestWhatIsKeptDependsOnTheStandbys(t *testing.T) {
	const always, loss, split = driver.Always, driver.UntilDataLoss, driver.UntilSplit
	for _, c := range []struct {
		copies, awaited int
		want            driver.Keeps
	}{
		{0, 0, driver.Keeps{}},
		{1, 0, driver.Keeps{Exclusion: split, Order: loss, Tokens: split}},
		{2, 0, driver.Keeps{Exclusion: split, Order: loss, Tokens: split}},
		{1, 1, driver.Keeps{}},
		{2, 2, driver.Keeps{}},
		{2, 1, driver.Keeps{Exclusion: always, Order: loss, Tokens: always}},
		{3, 1, driver.Keeps{Exclusion: split, Order: loss, Tokens: split}},
		{3, 2, driver.Keeps{Exclusion: always, Order: loss, Tokens: always}},
		{4, 2, driver.Keeps{Exclusion: always, Order: loss, Tokens: always}},
		{5, 2, driver.Keeps{Exclusion: split, Order: loss, Tokens: split}},
	} {
		assert.Equal(t, c.want, Report{Fsync: true, Copies: c.copies, Awaited: c.awaited}.Keeps(), "%d of %d", c.awaited, c.copies)
	}
	assert.Equal(t, driver.Keeps{Exclusion: loss, Order: loss, Tokens: loss}, Report{}.Keeps())
}

package once

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

// start is when the runs of these tests begin.
func start() time.Time { return time.Date(2026, 11, 20, 17, 34, 0, 0, time.UTC) }

// at is the run number i: there is one each second.
func at(i int) Run {
	return Run{Key: fmt.Sprint("k", i), Token: int64(i), Host: "h", PID: 1, Time: start().Add(time.Duration(i) * time.Second)}
}

// record returns a record with n runs.
func record(t *testing.T, n int, run func(int) Run) []byte {
	t.Helper()
	var all []Run
	for i := range n {
		all = append(all, run(i))
	}
	b, err := encode(all)
	require.NoError(t, err)
	return b
}

// added returns the runs of a record to which one more was added.
func added(t *testing.T, b []byte, run Run, keepFor time.Duration) []Run {
	t.Helper()
	b, err := add(b, run, keepFor)
	require.NoError(t, err)
	require.LessOrEqual(t, len(b), maxRecord)
	all, err := runs(b)
	require.NoError(t, err)
	return all
}

func TestOldRunsAreForgottenBehindTheNewestThousand(t *testing.T) {
	all := added(t, record(t, Kept, at), at(Kept), 0)

	require.Len(t, all, Kept)
	assert.Equal(t, Run{Key: "k1", Token: 1, Time: at(1).Time}, all[0], "an old run has no host")
	assert.Equal(t, at(Kept), all[Kept-1])
}

func TestAYoungRunIsNeverForgotten(t *testing.T) {
	b := record(t, Kept+200, at)

	all := added(t, b, at(Kept+200), (Kept+100)*time.Second)
	require.Len(t, all, Kept+101)
	assert.Equal(t, "k100", all[0].Key)

	assert.Len(t, added(t, b, at(Kept+10000), time.Minute), Kept)
	assert.Len(t, added(t, b, at(Kept+200), time.Hour), Kept+201)
}

func TestAFullRecordIsAnErrorAndForgetsNothing(t *testing.T) {
	long := func(i int) Run {
		return Run{Key: strings.Repeat("x", MaxKey-5) + fmt.Sprintf("%05d", i), Token: 1 << 62, Time: at(i).Time}
	}
	one := len(record(t, 1, long))
	full := 1 + (maxRecord-one)/(len(record(t, 2, long))-one)
	b := record(t, full, long)

	_, err := add(b, long(full), time.Hour)
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, fmt.Sprintf("has %d keys of the last 1h0m0s", full))

	all := added(t, b, long(5000), time.Hour)
	assert.Len(t, all, full, "the first one is old by now, and no more than must is forgotten")
}

// A record of the versions that kept 100 runs, with the host and the process of each.
func TestARecordOfAnEarlierVersionIsRead(t *testing.T) {
	b, err := add([]byte(`{"v":1,"runs":[{"key":"a","token":7,"host":"web-2","pid":4121,"time":"2026-11-20T17:34:00.123456789Z"}]}`),
		Run{Key: "b", Token: 8, Time: start()}, DefaultFor)
	require.NoError(t, err)

	all, err := runs(b)
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "web-2", all[0].Host)
}

func TestARunReplacesOneWithTheSameKey(t *testing.T) {
	b, err := add(nil, Run{Key: "a", Token: 1}, 0)
	require.NoError(t, err)
	b, err = add(b, Run{Key: "a", Token: 2}, 0)
	require.NoError(t, err)

	all, err := runs(b)
	require.NoError(t, err)
	assert.Equal(t, []Run{{Key: "a", Token: 2}}, all)
}

// Characters that JSON escapes take six bytes each.
func TestTheLongestRecordIsOneThatServicesTake(t *testing.T) {
	long := func(i int) Run {
		return Run{Key: strings.Repeat("\x01", MaxKey-4) + fmt.Sprintf("%04d", i), Host: strings.Repeat("h", 64), PID: 1 << 30, Token: 1 << 62, Time: at(i).Time}
	}
	b := record(t, 100, long)

	all := added(t, b, long(101), 0)
	assert.Len(t, all, 101)
	assert.Less(t, len(added(t, record(t, Kept, long), long(Kept), 0)), Kept)
}

func TestABrokenRecordIsAnError(t *testing.T) {
	for _, b := range []string{"", "{", "[]", `{"v":2}`, `{"runs":[]}`} {
		_, err := add([]byte(b), Run{Key: "a"}, 0)
		require.ErrorIs(t, err, session.ErrRefused, b)
	}
}

func TestKeysAreCheckedBeforeAnythingIsSent(t *testing.T) {
	require.NoError(t, CheckKey("2026-11-20T17:34/é"))
	for _, key := range []string{"", strings.Repeat("x", MaxKey+1), "\xff"} {
		require.ErrorIs(t, CheckKey(key), session.ErrInvalidOptions, key)
	}
}

package once

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

func TestNewRunsReplaceTheOldest(t *testing.T) {
	var record []byte
	var err error
	for i := range 3 * Kept {
		record, err = add(record, Run{Key: fmt.Sprint("k", i), Token: int64(i)})
		require.NoError(t, err)
	}

	all, err := runs(record)
	require.NoError(t, err)
	require.Len(t, all, Kept)
	assert.Equal(t, "k200", all[0].Key)
	assert.Equal(t, Run{Key: "k299", Token: 299}, all[Kept-1])
}

func TestARunReplacesOneWithTheSameKey(t *testing.T) {
	record, err := add(nil, Run{Key: "a", Token: 1})
	require.NoError(t, err)
	record, err = add(record, Run{Key: "a", Token: 2})
	require.NoError(t, err)

	all, err := runs(record)
	require.NoError(t, err)
	assert.Equal(t, []Run{{Key: "a", Token: 2}}, all)
}

// Characters that JSON escapes take six bytes each.
func TestTheLongestRecordIsOneThatServicesTake(t *testing.T) {
	var record []byte
	var err error
	for i := range Kept {
		key := strings.Repeat("\x01", MaxKey-3) + fmt.Sprintf("%03d", i)
		record, err = add(record, Run{Key: key, Host: strings.Repeat("h", 64), PID: 1 << 30, Token: 1 << 62})
		require.NoError(t, err)
	}

	const most = 256 << 10 // a quarter of what ZooKeeper takes
	assert.Less(t, len(record), most)
}

func TestABrokenRecordIsAnError(t *testing.T) {
	for _, record := range []string{"", "{", "[]", `{"v":2}`, `{"runs":[]}`} {
		_, err := add([]byte(record), Run{Key: "a"})
		require.ErrorIs(t, err, session.ErrRefused, record)
	}
}

func TestKeysAreCheckedBeforeAnythingIsSent(t *testing.T) {
	require.NoError(t, CheckKey("2026-11-20T17:34/é"))
	for _, key := range []string{"", strings.Repeat("x", MaxKey+1), "\xff"} {
		require.ErrorIs(t, CheckKey(key), session.ErrInvalidOptions, key)
	}
}

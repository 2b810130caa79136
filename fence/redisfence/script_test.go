package redisfence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/redisfence"
	"github.com/fairlock/fairlock/session"
)

// hashed returns the part of a key that decides its slot: Redis Cluster Specification, "Hash tags".
func hashed(key string) string {
	_, after, ok := strings.Cut(key, "{")
	if !ok {
		return key
	}
	end := strings.IndexByte(after, '}')
	if end < 1 {
		return key
	}
	return after[:end]
}

func TestAMarkIsInTheSlotOfItsData(t *testing.T) {
	for _, key := range []string{"", "ada", "{ada}", "account:{ada}:balance", "{ada}{bob}", "{ada", "a{b"} {
		mark := redisfence.Mark(key)

		assert.NotEqual(t, key, mark)
		if key != "" { // its mark has no tag
			assert.Equal(t, hashed(key), hashed(mark), "%q", key)
		}
		assert.Equal(t, []string{mark, key, "more"}, redisfence.Keys(key, "more"))
	}
}

func TestErrReadsWhatClientsMakeOfARefusal(t *testing.T) {
	for _, text := range []string{"FAIRLOCKSTALE shared 6 7", "-FAIRLOCKSTALE shared 6 7", "ERR FAIRLOCKSTALE shared 6 7 script: 0f, on @user_script:1."} {
		reply := errors.New(text)

		err := redisfence.Err(reply)

		require.ErrorIs(t, err, fence.ErrStale)
		require.ErrorIs(t, err, reply)
		var stale *fence.StaleError
		require.ErrorAs(t, err, &stale)
		assert.Equal(t, fence.StaleError{Token: 6, Mode: session.Shared, Seen: 7}, *stale)
		assert.EqualError(t, err, "fence: stale token: shared token 6 refused: token 7 was seen")
	}
	for _, err := range []error{nil, errors.New("FAIRLOCKSTALE half 6 7"), errors.New("FAIRLOCKSTALE shared 0 7"), errors.New("ERR stale")} {
		assert.Equal(t, err, redisfence.Err(err))
	}
}

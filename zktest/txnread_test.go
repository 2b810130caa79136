package zktest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTransactionsThatEndTooSoonAreErrors(t *testing.T) {
	whole := appendString(txn(7, opDelete), "/a/b")
	head, rest := headOf(whole)
	all, err := decode(head, rest)
	require.NoError(t, err)
	require.Equal(t, []Change{{Zxid: 7, Kind: Deleted, Path: "/a/b", At: head.at}}, all)

	for n := range rest {
		_, err := decode(head, rest[:n])
		assert.ErrorIs(t, err, errTorn)
	}
}

func FuzzLog(f *testing.F) {
	f.Add(logOf(1, 2, 3))
	f.Add(appendRecord([]byte(logMagic), appendString(txn(7, txnMulti), "\x00\x00\x00\x01")))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_ = eachRecord(bytes.NewReader(text), func(txn []byte) error {
			head, rest := headOf(txn)
			for head.kind = -20; head.kind < 30; head.kind++ {
				_, _ = decode(head, rest)
			}
			return nil
		})
	})
}

func TestAGapInTheLogsIsSeen(t *testing.T) {
	const epoch = 1 << 32
	logs := func(zxids ...int64) map[int64][]Change {
		done := map[int64][]Change{}
		for _, zxid := range zxids {
			done[zxid] = nil
		}
		return done
	}
	for name, c := range map[string]struct {
		done         map[int64][]Change
		newest, want int64
		after        int64
	}{
		"whole":           {logs(1, 2, epoch+1), epoch + 1, 0, 0},
		"no leader's yet": {logs(1, 2), 2 * epoch, 0, 0},
		"not written yet": {logs(1, 2), 3, 3, 0},
		"in the middle":   {logs(1, 3, epoch+1), epoch + 1, 2, 0},
		"the beginning":   {logs(1, epoch+2), epoch + 2, epoch + 1, 0},
		"known":           {logs(epoch + 2), epoch + 2, 0, epoch + 1},
		"all known":       {logs(), epoch + 2, 0, epoch + 2},
		"not all":         {logs(), epoch + 2, epoch + 2, epoch + 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := reading{newest: c.newest, done: c.done, after: c.after}
			assert.Equal(t, c.want, r.missing())
		})
	}
}

package zktest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func logOf(zxids ...int64) []byte {
	text := []byte(logMagic)
	for _, zxid := range zxids {
		text = appendRecord(text, txn(zxid, opDelete))
	}
	return text
}

func TestLastTransactionOfALog(t *testing.T) {
	whole := logOf(5, 6, 0x100000001)
	changed := logOf(5, 6)
	changed[len(changed)-10]++
	for name, c := range map[string]struct {
		text []byte
		want int64
	}{
		"none":                 {nil, 0},
		"no record":            {logOf(), 0},
		"several":              {whole, 0x100000001},
		"with room for more":   {append(logOf(5, 6), make([]byte, 1000)...), 6},
		"torn":                 {whole[:len(whole)-1], 6},
		"torn in the length":   {append(logOf(5), 0, 0, 0), 5},
		"another's last bytes": {changed, 5},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, lastOfLog(c.text))
		})
	}
}

func TestLastTransactionOfAMember(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string][]byte{
		"log.1":          logOf(1, 2, 0x2f),
		"snapshot.0":     nil,
		"snapshot.2e.gz": nil,
		"currentEpoch":   []byte("77"),
		"log.old":        logOf(99),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	last, err := lastZxid(dir)
	require.NoError(t, err)
	assert.EqualValues(t, 0x2f, last)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "snapshot.100000000"), nil, 0o600))
	last, err = lastZxid(dir)
	require.NoError(t, err)
	assert.EqualValues(t, 0x100000000, last)

	require.NoError(t, appendChild(dir, "/", 7))
	last, err = lastZxid(dir)
	require.NoError(t, err)
	assert.EqualValues(t, 0x100000002, last)
}

func FuzzLastTransactionOfALog(f *testing.F) {
	f.Add(logOf(1, 2, 3))
	f.Add(append(logOf(1), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(_ *testing.T, text []byte) { lastOfLog(text) })
}

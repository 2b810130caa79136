package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded is the log of a ZooKeeper 3.8.0, with 64 of the zeros at its end. In it a
// session creates a container and two entries, one alone and one in a transaction. It
// fails to delete the first entry in a transaction, then does so in another. It creates
// and deletes a node with a time to live, tries that again, and ends. The server removes
// the container, and another session creates /end.
func recorded(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "log.1"))
	require.NoError(t, err)
	return b
}

// want describes the transactions of that log.
const want = `
1
2 +container /line
3 +/line/a-lock-0000000000="one"
4 +/line/b-lock-0000000001="two"
5
6 -/line/a-lock-0000000000
7 +/ttl
8 -/ttl
9
10
11 -/line/b-lock-0000000001
12
13 -/line
14 +/end
`

func describe(t Txn) string {
	var b strings.Builder
	fmt.Fprint(&b, t.Zxid)
	for _, o := range t.Ops {
		sign := "-"
		if o.Created {
			sign = "+"
		}
		if o.Container {
			sign += "container "
		}
		fmt.Fprintf(&b, " %s%s", sign, o.Path)
		if len(o.Data) > 0 {
			fmt.Fprintf(&b, "=%q", o.Data)
		}
	}
	return b.String() + "\n"
}

// folder returns a server's dataLogDir.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "version-2"), 0o700))
	return dir
}

func write(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "version-2", name), b, 0o600))
}

// follow returns what Follow reports, up to the transaction with the zxid last.
func follow(t *testing.T, dir string, last int64) string {
	t.Helper()
	ctx, cancel := context.WithCancel(hang.Context(t))
	defer cancel()
	b := "\n"
	require.NoError(t, Follow(ctx, dir, func(x Txn) {
		if b += describe(x); x.Zxid >= last {
			cancel()
		}
	}))
	return b
}

// record returns a transaction in the form of a log.
func record(zxid int64, kind int32, rest ...byte) []byte {
	txn := binary.BigEndian.AppendUint64(make([]byte, 8+4), uint64(zxid))
	txn = binary.BigEndian.AppendUint32(append(txn, make([]byte, 8)...), uint32(kind))
	txn = append(txn, rest...)
	b := binary.BigEndian.AppendUint64(nil, uint64(adler32.Checksum(txn)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(txn)))
	return append(append(b, txn...), endOfRecord)
}

func TestFollowReportsEveryTransaction(t *testing.T) {
	dir := folder(t)
	write(t, dir, "log.1", recorded(t))

	assert.Equal(t, want, follow(t, dir, 14))
}

func TestFollowWaitsForTheRestOfARecord(t *testing.T) {
	dir, all := t.TempDir(), recorded(t)
	done := make(chan string, 1)
	go func() { done <- follow(t, dir, 14) }()

	require.NoError(t, os.Mkdir(filepath.Join(dir, "version-2"), 0o700))
	for n := 0; n < len(all); n += 97 { // mostly in the middle of a record
		write(t, dir, "log.1", append(all[:n:n], make([]byte, 100)...))
		time.Sleep(time.Millisecond)
	}
	write(t, dir, "log.1", all)

	assert.Equal(t, want, <-done)
}

func TestFollowContinuesWithTheNextLog(t *testing.T) {
	dir := folder(t)
	write(t, dir, "log.1", recorded(t))
	write(t, dir, "log.f", append(make([]byte, fileHeader), record(15, opError)...))
	write(t, dir, "log.10", append(make([]byte, fileHeader), record(16, opError)...))

	assert.Equal(t, want+"15\n16\n", follow(t, dir, 16))
}

func TestMissingOrUnknownTransactionIsAnError(t *testing.T) {
	for _, c := range []struct {
		name   string
		record []byte
		want   string
	}{
		{"missing", record(16, opError), "journal: transaction 0x10 follows 0xe: what is between them is missing"},
		{"unknown kind", record(15, 99), "journal: transaction 0xf of kind 99: there is no such kind"},
		{"short", record(15, opCreate, 0, 0, 0, 9, 'x'), "journal: transaction 0xf of kind 1: it is too short"},
		{"short inside", record(15, opMulti, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0), "journal: transaction 0xf of kind 14: it is too short"},
		{"many", record(15, opCloseSession, 0x7f, 0xff, 0xff, 0xff), "journal: transaction 0xf of kind -11: it is too short"},
		{"nested", record(15, opMulti, 0, 0, 0, 1, 0, 0, 0, opMulti, 0, 0, 0, 0), "journal: transaction 0xf of kind 14: it is part of another"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t)
			write(t, dir, "log.1", recorded(t))
			write(t, dir, "log.f", append(make([]byte, fileHeader), c.record...))

			err := Follow(t.Context(), dir, func(Txn) {})

			require.EqualError(t, err, c.want)
		})
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	require.NoError(t, Follow(ctx, folder(t), func(Txn) {}))
}

func FuzzParse(f *testing.F) {
	for b := recorded(f)[fileHeader:]; binary.BigEndian.Uint32(b[8:]) > 0; {
		n := int(binary.BigEndian.Uint32(b[8:]))
		f.Add(b[recordHeader : recordHeader+n])
		b = b[recordHeader+n+1:]
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := parse(b)
		if err != nil {
			return
		}
		size := 0
		for _, o := range x.Ops {
			size += len(o.Path) + len(o.Data)
		}
		assert.LessOrEqual(t, size, len(b))
	})
}

package zkbackend

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

func TestNamesBecomePaths(t *testing.T) {
	for name, want := range map[string]string{
		"orders/settle": "/fairlock/orders/settle",
		"a//b":          "/fairlock/a/%/b",
		"/":             "/fairlock/%/%",
		".":             "/fairlock/%2E",
		"a/../b":        "/fairlock/a/%2E%2E/b",
		"100%":          "/fairlock/100%25",
		"tab\there":     "/fairlock/tab%09here",
		"日本語/🔒":         "/fairlock/日本語/%F0%9F%94%92",
		"a\uf8ffb":      "/fairlock/a%EF%A3%BFb",
	} {
		assert.Equal(t, want, newLayout("/fairlock", LayoutCurator).folder(name), "%q", name)
	}
	assert.Equal(t, "/a", newLayout("/", LayoutCurator).folder("a"))
}

func TestASideFolderIsOnePartOfThePath(t *testing.T) {
	l := newLayout("/fairlock", LayoutCurator)
	for name, want := range map[string]string{
		"gpu":   "/fairlock/%v2/gpu",
		"a/b":   "/fairlock/%v2/a%2Fb",
		"a%2Fb": "/fairlock/%v2/a%252Fb",
		"a//b":  "/fairlock/%v2/a%2F%%2Fb",
		"/":     "/fairlock/%v2/%%2F%",
		".":     "/fairlock/%v2/%2E",
		"%v2":   "/fairlock/%v2/%25v2",
	} {
		assert.Equal(t, want, l.side(name), "%q", name)
		assert.Equal(t, want+"/asks/queue", l.folder(driver.AskQueue(name)), "%q", name)
		assert.Equal(t, want+"/asks/details", l.details(driver.AskQueue(name)), "%q", name)
	}
	l = newLayout("/", LayoutCurator)
	assert.Equal(t, "/%v2/a/records/slot%2F3", l.record("a", "slot/3"))
	assert.Equal(t, "/%v2/a/records/%2E%40@1z", l.version("a", ".@", 71))
}

// TestTheLargestSessionFitsIntoItsLastTransaction, whatever the length of its names, if they are equally long.
func TestTheLargestSessionFitsIntoItsLastTransaction(t *testing.T) {
	const limit, header = 2 * 0xfffff, 4 << 10
	slot := fmt.Sprint("slot/", math.MaxInt32)
	for _, root := range []string{"/", "/r", "/" + strings.Repeat("r", maxRoot-1)} {
		l := newLayout(root, LayoutCurator)
		for _, name := range []string{
			"q", strings.Repeat("n", 50), strings.Repeat("n/", 40), strings.Repeat("n", 512), strings.Repeat("%", 512), strings.Repeat("/", 512),
		} {
			for entry, more := range map[string][]string{
				"0123456789abcdefxv-__WRIT__0000000000": nil,
				"0123456789abcdefvw9223372036854775807-lock-0000000000": {
					l.holders(name) + "/0123456789abcdef", l.record(name, slot), l.version(name, slot, math.MaxInt64),
				},
			} {
				n, ok := parseName(entry)
				require.True(t, ok)
				size := 0
				for _, path := range append(more, l.folder(name)+"/"+entry, l.details(name)+"/0123456789abcdef") {
					size += 4 + len(path)
				}
				most := l.mostEntries(name, n.mode)
				assert.Less(t, most*size, limit-header, "%d of %q in %q", most, entry, name)
				assert.Greater(t, most*size, limit/3, "%d of %q in %q", most, entry, name)
			}
		}
	}
}

func TestForeignFoldersHaveNoName(t *testing.T) {
	l := newLayout("/fairlock", LayoutCurator)
	for _, dir := range []string{"/fairlock", "/other/a", "/fairlockx/a", "/fairlock/%zz", "/fairlock/a%2", "/fairlock/%61", "/fairlock/%FF"} {
		name, ok := l.name(dir)
		assert.False(t, ok, "%q is taken for %q", dir, name)
	}
}

func TestNamesThatWouldBeEntriesAreRefused(t *testing.T) {
	for _, kind := range []Layout{LayoutCurator, LayoutKazoo} {
		l := newLayout("/fairlock", kind)
		for _, name := range []string{
			"x-lock-0000000001", "lock-0000000001", "a/0123456789abcdef__lock__0000000001/b", "__READ__0000000009",
			"x__rlock__-000000001" + "0", "__WRIT__2147483647", "latch-0000000001",
		} {
			assert.Error(t, l.check(name), name)
		}
		for _, name := range []string{"lock-1", "lock-", "lock-00000000011", "lock-000000011", "lock--00000001", "0000000001", "lease-0000000001", "%v2", "clock-face", "zookeeper"} {
			assert.NoError(t, l.check(name), name)
		}
	}
	require.Error(t, newLayout("/", LayoutCurator).check("zookeeper/quota"))
}

func TestNamesOfEntriesAreParsed(t *testing.T) {
	for name, want := range map[string]entryName{
		"_c_7a4cbe0c-f5f4-4f9f-8d3e-5c5c4c4b4a49-lock-0000000012": {marker: markLock, seq: 12},
		"_c_0123456789abcdef0123456789abcdef-lock-0000000003":     {marker: markLock, seq: 3},
		"lock-0000000007": {marker: markLock, seq: 7},
		"0123456789abcdef0123456789abcdef__lock__0000000004": {marker: markKazoo, seq: 4},
		"0123456789abcdef__rlock__0000000004":                {marker: markKazooRead, seq: 4, mode: driver.Shared, guid: "0123456789abcdef"},
		"_c_x-__READ__0000000001":                            {marker: markRead, seq: 1, mode: driver.Shared},
		"_c_x-__WRIT__0000000002":                            {marker: markWrite, seq: 2},
		"0123456789abcdef-lock-0000000005":                   {marker: markLock, seq: 5, guid: "0123456789abcdef"},
		"0123456789abcdefw12-lock-0000000006":                {marker: markLock, seq: 6, guid: "0123456789abcdef", mode: driver.Weighted, weight: 12},
		"0123456789abcdefx-lock-0000000005":                  {marker: markLock, seq: 5, guid: "0123456789abcdef", sealed: true},
		"0123456789abcdefxx-lock-0000000005":                 {marker: markLock, seq: 5},
		"0123456789abcdefwx3-lock-0000000005":                {marker: markLock, seq: 5},
		"0123456789abcdefw012-lock-0000000006":               {marker: markLock, seq: 6},
		"0123456789abcdefw-1-lock-0000000006":                {marker: markLock, seq: 6},
		"0123456789ABCDEF-lock-0000000006":                   {marker: markLock, seq: 6},
		"0123456789abcdefv-latch-0000000006":                 {marker: markLatch, seq: 6, guid: "0123456789abcdef", valued: true},
		"0123456789abcdefx-__WRIT__0000000006":               {marker: markWrite, seq: 6, guid: "0123456789abcdef", sealed: true},
		"0123456789abcdefxv-lock-0000000006":                 {marker: markLock, seq: 6, guid: "0123456789abcdef", sealed: true, valued: true},
		"0123456789abcdefvx-lock-0000000006":                 {marker: markLock, seq: 6},
		"0123456789abcdefxw3-lock-0000000006":                {marker: markLock, seq: 6},
		"0123456789abcdefvw3-lock-0000000006":                {marker: markLock, seq: 6, guid: "0123456789abcdef", valued: true, mode: driver.Weighted, weight: 3},
		"_c_x-latch-0000000001":                              {marker: markLatch, seq: 1},
		"x-lock--2147483648":                                 {marker: markLock, seq: -2147483648},
		"x-lock--000000001":                                  {marker: markLock, seq: -1},
		"0123456789abcdefx-lock--000000005":                  {marker: markLock, seq: -5, guid: "0123456789abcdef", sealed: true},
		"a-lock-b-lock-0000000002":                           {marker: markLock, seq: 2},
		"__lock__lock-0000000002":                            {marker: markLock, seq: 2},
	} {
		want.text = name
		got, ok := parseName(name)
		require.True(t, ok, name)
		assert.Equal(t, want, got)
	}
	for _, name := range []string{
		"", "README", "lock-", "lock-1", "lock-000000001", "lock-00000000001", "lock0000000001", "_c_x", "0000000001",
		"_c_x-lease-0000000001", "lock-000000000x", "lock---0000000001", "leases", "locks",
	} {
		_, ok := parseName(name)
		assert.False(t, ok, name)
	}
}

func TestOwnNamesAreParsedAsTheyWereMade(t *testing.T) {
	const guid = "0123456789abcdef"
	for _, kind := range []Layout{LayoutCurator, LayoutKazoo} {
		l := newLayout("/", kind)
		for _, c := range []struct {
			req  driver.JoinRequest
			want entryName
		}{
			{driver.JoinRequest{}, entryName{marker: markLock, sealed: true}},
			{driver.JoinRequest{Mode: driver.Shared}, entryName{marker: markRead, sealed: true}},
			{driver.JoinRequest{Mode: driver.Shared, Family: driver.FamilyReadWrite}, entryName{marker: markRead, sealed: true}},
			{driver.JoinRequest{Family: driver.FamilyReadWrite}, entryName{marker: markWrite, sealed: true}},
			{driver.JoinRequest{Family: driver.FamilyLatch}, entryName{marker: markLatch}},
			{driver.JoinRequest{Family: driver.FamilyLatch, Valued: true}, entryName{marker: markLatch, valued: true}},
			{driver.JoinRequest{Valued: true}, entryName{marker: markLock, valued: true, sealed: true}},
			{driver.JoinRequest{Mode: driver.Weighted, Weight: 3}, entryName{marker: markLock, weight: 3}},
		} {
			for _, sealed := range []bool{false, true} {
				name := l.prefix(guid, sealed, c.req) + "0000000042"
				want := c.want
				want.text, want.guid, want.seq, want.mode = name, guid, 42, c.req.Mode
				want.sealed = want.sealed && sealed
				switch {
				case kind == LayoutKazoo && c.req.Mode == driver.Shared:
					want.marker = markKazooRead
				case kind == LayoutKazoo:
					want.marker = markKazoo
					want.sealed = sealed && want.mode != driver.Weighted
				}
				got, ok := parseName(name)
				require.True(t, ok, name)
				assert.Equal(t, want, got)
			}
		}
	}
}

// fixForSorting is what Curator's InterProcessReadWriteLock orders by, as strings:
// StandardLockInternalsDriver.standardFixForSorting for both names.
func fixForSorting(name string) string {
	for _, marker := range []string{"__READ__", "__WRIT__"} {
		if i := strings.LastIndex(name, marker); i >= 0 {
			name = name[i+len(marker):]
		}
	}
	return name
}

func TestReadersAndWritersSortWithCurators(t *testing.T) {
	const guid = "0123456789abcdef"
	l := newLayout("/", LayoutCurator)
	for _, sealed := range []bool{false, true} {
		writer := l.prefix(guid, sealed, driver.JoinRequest{Family: driver.FamilyReadWrite}) + "0000000012"
		reader := l.prefix(guid, sealed, driver.JoinRequest{Mode: driver.Shared}) + "0000000012"
		assert.Equal(t, "0000000012", fixForSorting(writer))
		assert.Equal(t, "0000000012", fixForSorting(reader))
		assert.Contains(t, writer, "__WRIT__", "Curator finds writers by it")
		assert.NotContains(t, reader, "__WRIT__")
	}
}

func TestQueuesAreInTheOrderOfSequenceNumbers(t *testing.T) {
	got := parseNames([]string{"b-lock-0000000002", "config", "a-lock-0000000010", "c__lock__0000000001", "z-lock-0000000002", "x-lock--0000000001"})
	var seqs []int64
	for _, n := range got {
		seqs = append(seqs, n.seq)
	}
	assert.Equal(t, []int64{-1, 1, 2, 2, 10}, seqs)
	assert.Equal(t, "b-lock-0000000002", got[2].text, "equal numbers have the same order for all clients")
}

// A client of Curator that holds the write lock can hold the read lock too, with the same number.
// If a view began between the two, the picture of the queue would lack the writer without a gap.
func TestAWriterAndItsReaderAreInOneView(t *testing.T) {
	names := parseNames([]string{"_c_a-__WRIT__0000000001", "_c_b-__READ__0000000001", "_c_c-__READ__0000000002", "_c_d-__READ__0000000003"})
	for nearest, want := range map[int]int{1: 1, 2: 3, 3: 3} {
		v := reader{queue: "x", folder: "/x"}.view(names, driver.ReadRequest{From: 4, Upto: 4, Nearest: nearest})
		assert.Len(t, v.Entries, want+1)
		assert.Equal(t, want == 3, v.Complete)
	}
}

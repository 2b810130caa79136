package zkbackend

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

func TestMarksAreReadBack(t *testing.T) {
	name := func(text string) entryName {
		n, ok := parseName(text)
		require.True(t, ok)
		return n
	}
	writer, request := name("0123456789abcdefx-__WRIT__0000000002"), name("0123456789abcdefw3-lock-0000000002")
	meta := []byte(`{"v":1}`)
	data, m, token := decodeEntry(writer, encodeShared(meta, 77), 1)
	assert.Equal(t, meta, data)
	assert.Equal(t, driver.MarkShared, m)
	assert.EqualValues(t, 77, token)
	data, m, token = decodeEntry(request, encodeAdmitted(meta), 1)
	assert.Equal(t, meta, data)
	assert.Equal(t, driver.MarkAdmitted, m)
	assert.Zero(t, token)

	for _, c := range []struct {
		name    entryName
		data    []byte
		version int32
	}{
		{writer, encodeShared(meta, 77), 0}, // it was joined with that
		{writer, encodeAdmitted(meta), 1},
		{request, encodeShared(meta, 77), 1},
		{writer, []byte("__REVOKE__"), 1}, // by Curator's Revoker
		{writer, []byte("x\n#shared"), 1},
		{writer, []byte("x\n#shared -1"), 1},
		{name("0123456789abcdefx-lock-0000000002"), encodeShared(meta, 77), 1}, // no writer
		{name("0123456789abcdefxv__lock__0000000002"), encodeShared(meta, 77), 1},
		{name("_c_x-__WRIT__0000000002"), encodeShared(meta, 77), 1},
	} {
		data, m, token := decodeEntry(c.name, c.data, c.version)
		assert.Equal(t, c.data, data)
		assert.Zero(t, m, "%q of %q", c.data, c.name.text)
		assert.Zero(t, token)
	}
}

func TestVersionsOfRecordsAreReadBack(t *testing.T) {
	for _, value := range []string{"", "8", "{}\n#x", "\n#"} {
		v := newVersion()
		got, version, ok := decodeRecord(encodeRecord([]byte(value), v))
		require.True(t, ok)
		assert.Equal(t, value, string(got))
		assert.Equal(t, v, version)
		assert.Positive(t, v)
		assert.NotEqual(t, v, newVersion())
	}
	for _, data := range []string{"", "8", "8\n#", "8\n#-5", "8\n#0", "8\n#01", "8\n#A", "8\n#zzzzzzzzzzzzzzzz", "8\n#!"} {
		_, _, ok := decodeRecord([]byte(data))
		assert.False(t, ok, "%q", data)
	}
}

// FuzzStored parses what any program may have put into a folder: each child is a valid entry or
// none.
func FuzzStored(f *testing.F) {
	f.Add("0123456789abcdefx-lock-0000000001\n_c_x-lock-2147483647\nlock--2147483648", []byte("x\n#shared 1"), int32(1))
	f.Add("0123456789abcdefw3-lock-0000000001\n0123456789abcdef-__WRIT__0000000002", []byte("\n#admitted"), int32(2))
	f.Add("0123456789abcdefv-latch-0000000001\nREADME\n%v2\n8", []byte("8\n#k"), int32(0))
	f.Add("0123456789abcdefw-1-lock-0000000001\n0123456789abcdefw99999999999999999999-lock-0000000001\n-1", []byte("\n#shared 99999999999999999999"), int32(1))
	f.Add("650a0f30f9b34987ba0141457acea795__lock__0000000008\n0123456789abcdef__rlock__0000000009", []byte("\n#"), int32(-1))
	f.Add("_c_x\n0123456789abcdefw12-lock-0000000006\nw-lock-0000000000", []byte(nil), int32(0))
	f.Fuzz(func(t *testing.T, names string, data []byte, version int32) {
		last := int64(0)
		for i, n := range parseNames(strings.Split(names, "\n")) {
			e := n.entry("n", "/fairlock/n")
			switch {
			case i > 0 && n.seq < last:
				t.Fatalf("%q stands behind %d", n.text, last)
			case e.Foreign && (e.Mode == driver.Weighted || e.Valued), e.Weight < 0:
				t.Fatalf("%q is %+v", n.text, e)
			}
			last = n.seq
			rest, m, token := decodeEntry(n, data, version)
			switch {
			case m == driver.MarkShared:
				require.Equal(t, data, encodeShared(rest, token))
			case m == driver.MarkAdmitted:
				require.Equal(t, data, encodeAdmitted(rest))
			default:
				require.Equal(t, data, rest)
			}
		}
		if value, version, ok := decodeRecord(data); ok {
			require.Equal(t, data, encodeRecord(value, version))
		}
	})
}

// FuzzNamesOfQueues turns names into folders and folders into names: no two names share a
// folder or a side folder.
func FuzzNamesOfQueues(f *testing.F) {
	f.Add("/fairlock/orders/settle", "orders/settle", "orders%2Fsettle")
	f.Add("/fairlock/%v2/x/records", "%v2", "x")
	f.Add("/fairlock/%/%2E", "", "/")
	f.Add("/fairlock/\xff", "a", "a/")
	f.Add("/fairlock/%zz", ".", "..")
	for _, part := range []string{"%25", "%F0%9F%94%92", "%FF", "a\xf0\x9f"} {
		f.Add("/fairlock/"+part, part, "a")
	}
	f.Fuzz(func(t *testing.T, dir, a, b string) { namesOfQueues(t, dir, a, b) })
}

// TestNamesOfQueues is the same with names that are mostly of special characters.
func TestNamesOfQueues(t *testing.T) {
	names := rapid.Map(rapid.OneOf(
		rapid.StringMatching(`[a%/.2F\x00\x7f@-]{1,12}`), rapid.StringMatching(`%v2(/[a%]{0,3}){0,2}`), rapid.StringN(1, 30, 120),
	), func(s string) string { return strings.ToValidUTF8(s, "?") })
	rapid.Check(t, func(t *rapid.T) {
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		namesOfQueues(t, newLayout("/fairlock", LayoutCurator).folder(a), a, b)
	})
}

// namesOfQueues checks a folder and two names, on each layout.
func namesOfQueues(t rapid.TB, folder, a, b string) {
	for _, lay := range []layout{newLayout("/fairlock", LayoutCurator), newLayout("/", LayoutKazoo)} {
		if name, ok := lay.name(folder); ok && lay.folder(name) != folder {
			t.Fatalf("%q is the queue %q, whose folder is %q", folder, name, lay.folder(name))
		}
		if !utf8.ValidString(a) || !utf8.ValidString(b) || a == "" || b == "" || strings.Contains(a+b, "\x00") {
			continue // no user can give such a name
		}
		if name, ok := lay.name(lay.folder(a)); !ok || name != a {
			t.Fatalf("%q becomes %q becomes %q", a, lay.folder(a), name)
		}
		owner := map[string]string{}
		for _, q := range []string{a, b, driver.AskQueue(a), driver.AskQueue(b)} {
			for _, path := range []string{
				lay.folder(q), lay.details(q), lay.holders(q), lay.records(q), lay.record(q, a), lay.record(q, b), lay.version(q, a, 7),
			} {
				if err := checkPath(path); err != nil {
					t.Fatalf("%q of %q: %v", path, q, err)
				}
				if path == lay.record(q, a) || path == lay.record(q, b) {
					_, node := split(path)
					if name, ok := recordNamed(node); !ok || name != a && name != b {
						t.Fatalf("%q is the record %q", path, name)
					}
				} else if other, ok := owner[path]; ok && other != q {
					t.Fatalf("%q and %q meet in %q", q, other, path)
				}
				owner[path] = q
			}
			if under := lay.root + sideFolders; strings.HasPrefix(lay.folder(a)+"/", under) {
				t.Fatalf("%q lies at %q", a, lay.folder(a))
			}
		}
	}
}

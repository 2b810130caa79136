package zkbackend

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

// FuzzStored reads what anybody may have put into a line's folder, or beside it.
// Whatever it is, it is an entry like any other or none, and no limit but one
// whose name is its number.
func FuzzStored(f *testing.F) {
	f.Add("0123456789abcdefx-lock-0000000001\n_c_x-lock-2147483647\nlock--2147483648", []byte("0123456789abcdef clean"))
	f.Add("0123456789abcdefw3-lock-0000000001\n0123456789abcdef-__WRIT__0000000002", []byte(`{"v":1,"token":-5,"admitted":true}`))
	f.Add("0123456789abcdefv-latch-0000000001\nREADME\n%beside\n8", []byte("fairlock1 x"))
	f.Add("0123456789abcdefx-lock--000000001\n0123456789abcdefx-lock--2147483648\n0123456789abcdefx-lock-9999999999", []byte(" died"))
	f.Add("0123456789abcdefw-1-lock-0000000001\n0123456789abcdefw99999999999999999999-lock-0000000001\n-1\n1e99", []byte(`{"v":1,"token":1e99}`))
	f.Add("650a0f30f9b34987ba0141457acea795__lock__0000000008\n650a0f30f9b34987ba0141457acea795__rlock__0000000009", []byte("fairlock1 "))
	f.Add("0123456789abcdefx-__WRIT__0000000002\n0123456789abcdefx-__READ__0000000002\nlatch-0000000003", []byte("\x00"))
	f.Add("5", []byte("\xff died"))
	f.Fuzz(func(t *testing.T, names string, data []byte) {
		children := children{names: strings.Split(names, "\n"), stat: zk.Stat{Czxid: 1}}
		last := int64(0)
		for i, n := range parseNodes(children.names) {
			e := n.entry("n", "/fairlock/n")
			switch {
			case i > 0 && n.seq < last:
				t.Fatalf("%q stands behind %d", n.name, last)
			case e.Foreign && e.Mode == driver.Weighted, e.Weight < 0:
				t.Fatalf("%q is %+v", n.name, e)
			}
			last = n.seq
			if n.guid != "" && n.mode == driver.Exclusive {
				lay := layout{root: "/fairlock"}
				if n.marker == markKazoo {
					lay.kind = LayoutKazoo
				}
				if r, ok := parseNode(lay.reader(n)); !ok || r.seq != n.seq || r.guid != n.guid || r.mode != driver.Shared {
					t.Fatalf("%q becomes %q, which is %+v", n.name, lay.reader(n), r)
				}
			}
		}
		lowest(children.names)
		if l, err := children.limit("/x"); err == nil && (l.limit < 0 || l.limit > 0 && len(children.names) != 1) {
			t.Fatalf("%q is a limit of %d", names, l.limit)
		}
		readLedgerLine(data)
		readAddition(data)
		isMark(data, "x")
		watching(data)
	})
}

// FuzzNamesOfLines turns names into folders and folders into names: whoever is told
// of a line can find it by that name, and no two names share a folder, nor what
// lies beside it.
func FuzzNamesOfLines(f *testing.F) {
	f.Add("/fairlock/orders/settle", "orders/settle", "orders%2Fsettle")
	f.Add("/fairlock/%beside/x/limit", "%beside", "x")
	f.Add("/fairlock/%/%2E", "", "/")
	f.Add("/fairlock/\xff", "a", "a/")
	f.Add("/fairlock/%zz", ".", "..")
	f.Fuzz(func(t *testing.T, dir, a, b string) { namesOfLines(t, dir, a, b) })
}

// TestNamesOfLines is the same with names that are mostly of special characters.
func TestNamesOfLines(t *testing.T) {
	names := rapid.Map(rapid.OneOf(
		rapid.StringMatching(`[a%/.2F\x00\x7f-]{1,12}`), rapid.StringMatching(`%beside(/[a%]{0,3}){0,2}`), rapid.StringN(1, 30, 120),
	), func(s string) string { return strings.ToValidUTF8(s, "?") })
	rapid.Check(t, func(t *rapid.T) {
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		namesOfLines(t, newLayout("/fairlock", LayoutCurator).dir(a), a, b)
	})
}

// namesOfLines checks a folder and two names, on each layout.
func namesOfLines(t rapid.TB, dir, a, b string) {
	for _, lay := range []layout{newLayout("/fairlock", LayoutCurator), newLayout("/", LayoutKazoo)} {
		if name, ok := lay.name(dir); ok && lay.dir(name) != dir {
			t.Fatalf("%q is the line %q, whose folder is %q", dir, name, lay.dir(name))
		}
		if !utf8.ValidString(a) || !utf8.ValidString(b) || a == "" || b == "" {
			continue // such names come from no user
		}
		if name, ok := lay.name(lay.dir(a)); !ok || name != a {
			t.Fatalf("%q becomes %q becomes %q", a, lay.dir(a), name)
		}
		if name, ok := lay.name(lay.beside(a)); ok {
			t.Fatalf("what lies beside %q is taken for the line %q", a, name)
		}
		for _, of := range []func(string) string{lay.dir, lay.beside} {
			if err := checkPath(of(a)); err != nil {
				t.Fatalf("%q is %q: %v", a, of(a), err)
			}
			if a != b && of(a) == of(b) {
				t.Fatalf("%q and %q meet in %q", a, b, of(a))
			}
		}
		if under := lay.root + besideLines; strings.HasPrefix(lay.dir(a)+"/", under) || strings.Contains(lay.beside(a)[len(under):], "/") {
			t.Fatalf("%q lies at %q and %q", a, lay.dir(a), lay.beside(a))
		}
	}
}

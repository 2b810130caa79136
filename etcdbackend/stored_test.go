package etcdbackend

import (
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// FuzzStored reads what anybody may have put into a line, or beside it. Whatever
// it is, it is an entry like any other or no limit, and never admits anybody whom
// an entry of that key would not.
func FuzzStored(f *testing.F) {
	f.Add("694d77aa9e8f4f01.0", []byte(`{"v":1,"kind":"mutex"}`), int64(1))
	f.Add("694d77aa9e8f4f01.0", []byte(`{"shared":true,"v":1}`), int64(2))
	f.Add("694d77aa9e8f4f01.3.w9223372036854775807", []byte(`{"admitted":true}`), int64(9))
	f.Add("694d77aa9e8f4f01.1.r", []byte("\xff"), int64(0))
	f.Add("694d77aa9e8f4f01.1.v", []byte("10.0.0.7:80"), int64(1))
	f.Add("694d77aa9e8f4f01", []byte(""), int64(1))
	f.Add("694d77aa9e8f4f01.2147483648", []byte("-9223372036854775808 x"), int64(2))
	f.Add("694d77aa9e8f4f01.0.w-1", []byte(`{"v":99,"weight":-1,"place":1e99,"admitted":true}`), int64(2))
	f.Add("694d77aa9e8f4f01.0.w99999999999999999999", []byte("99999999999999999999"), int64(2))
	f.Add("-1", []byte("1e99"), int64(1))
	f.Add("+1", []byte("5 "), int64(1))
	f.Add("/", []byte(`{"v":1,"entry":"x","place":-1,"died":true}`), int64(-1))
	f.Fuzz(func(t *testing.T, key string, value []byte, version int64) {
		lay := layout{root: DefaultRoot}
		kv := &mvccpb.KeyValue{
			Key: []byte(lay.prefix("n") + key), Value: value, CreateRevision: 7, ModRevision: 7 + max(version-1, 0), Version: version, Lease: 1,
		}
		k, ours := parseEntry(key)
		for _, full := range []bool{false, true} {
			e := lay.entry("n", kv, full)
			switch {
			case e.Foreign == ours:
				t.Fatalf("%q is ours: %t, and foreign: %t", key, ours, e.Foreign)
			case e.Foreign && (e.Mode != driver.Exclusive || e.Admitted):
				t.Fatalf("a stranger's %q is %+v", key, e)
			case e.Weight < 0:
				t.Fatalf("%q has weight %d", key, e.Weight)
			case e.Mode != k.mode && !(full && k.mode == driver.Exclusive && readMark(value).Shared):
				t.Fatalf("%q, made as %s, is %s", key, k.mode, e.Mode)
			}
		}
		lay.listed("n", kv, nil)
		if n, err := parseLimit("k", kv); err == nil && string(formatLimit(n)) != string(value) {
			t.Fatalf("%q is a limit of %d", value, n)
		}
		ref := driver.Ref{Line: "n", Key: "me", Place: 100}
		if a := readLedger(kv); a.broken && a.before(ref) != driver.PastUnknown {
			t.Fatalf("%q tells how a hold ended", value)
		}
		if n, ok := parseNumber(key); ok && (n < 0 || strconv.Itoa(n) != key) {
			t.Fatalf("%q is the number %d", key, n)
		}
		if key, place, ok := parseOwner(value); ok && len(value) > 0 {
			again, p, ok := parseOwner(owner(driver.Ref{Key: key, Place: place}))
			if !ok || again != key || p != place {
				t.Fatalf("owner %q is read as %q, %d", value, again, p)
			}
		}
	})
}

// FuzzNamesOfLines reads keys back to names: whoever is told of a line can find it
// by that name, and no two names share a key.
func FuzzNamesOfLines(f *testing.F) {
	f.Add("fairlock/orders%2Fsettle/1.0", "orders", "orders/settle")
	f.Add("fairlock/%beside/x/limit", "%beside", "x")
	f.Add("fairlock/%fence/1.1", "%fence", "%2Fence")
	f.Add("fairlock/\xff/1.0", "a", "a/")
	f.Add("fairlock/%zz/1.0", "\x00", "%00")
	f.Add("/", "", "/")
	f.Fuzz(func(t *testing.T, key, a, b string) {
		for _, lay := range []layout{{root: DefaultRoot}, {root: "a/b"}, {root: DefaultRoot, kind: LayoutConcurrency}} {
			if name, from, ok := lay.lineOf(key); from <= key && strings.HasPrefix(key, lay.root+"/") || ok && name == "" {
				t.Fatalf("%s: %q is in %q, and goes on at %q", lay.kind, key, name, from)
			} else if ok && strings.HasPrefix(key, lay.root+"/") && !strings.HasPrefix(key, lay.prefix(name)) {
				t.Fatalf("%s: %q is not in the line %q", lay.kind, key, name)
			}
			if a == b || lay.kind == LayoutConcurrency {
				continue
			}
			for _, of := range []func(string) string{lay.prefix, lay.beside} {
				if pa, pb := of(a), of(b); strings.HasPrefix(pa, pb) {
					t.Fatalf("%q and %q meet in %q", a, b, pa)
				}
			}
			if pa := lay.prefix(a); strings.HasPrefix(pa, lay.besides()) || strings.HasPrefix(pa, lay.fences()) {
				t.Fatalf("%q is a line below %q", a, pa)
			}
		}
	})
}

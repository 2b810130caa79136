package etcdbackend

import (
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// FuzzStored reads what any program may have put into a queue. Whatever it is, it is an
// entry like any other, and admits no entry that a key of that form would not.
func FuzzStored(f *testing.F) {
	f.Add("694d77aa9e8f4f01.0", []byte(`{"v":1,"kind":"mutex"}`), int64(1))
	f.Add("694d77aa9e8f4f01.0.x", []byte("{}\n#shared"), int64(2))
	f.Add("694d77aa9e8f4f01.3.w9223372036854775807", []byte("\n#admitted"), int64(9))
	f.Add("694d77aa9e8f4f01.1.r", []byte("\xff"), int64(0))
	f.Add("694d77aa9e8f4f01.1.v", []byte("10.0.0.7:80\n#shared"), int64(2))
	f.Add("694d77aa9e8f4f01", []byte(""), int64(1))
	f.Add("694d77aa9e8f4f01.2147483648", []byte("\n#shared,"), int64(2))
	f.Add("694d77aa9e8f4f01.0.w-1", []byte("\n#admitted"), int64(2))
	f.Add("694d77aa9e8f4f01.0.w99999999999999999999", []byte("{}"), int64(2))
	f.Add("/", []byte("\n#"), int64(-1))
	f.Fuzz(func(t *testing.T, key string, value []byte, version int64) {
		q := &queue{name: "n", prefix: "r/n/", side: "r/%v2/n/"}
		kv := &mvccpb.KeyValue{
			Key: []byte(q.prefix + key), Value: value, CreateRevision: 7, ModRevision: 7 + max(version-1, 0), Version: version, Lease: 1,
		}
		k, ours := parseEntryKey(key)
		e := q.entry(kv)
		for range 2 {
			switch {
			case e.Foreign == ours:
				t.Fatalf("%q is ours: %t, and foreign: %t", key, ours, e.Foreign)
			case e.Foreign && (e.Mode != driver.Exclusive || e.Marks != 0):
				t.Fatalf("another program's %q is %+v", key, e)
			case e.Valued && e.Marks.Has(driver.MarkShared), version <= 1 && e.Marks != 0:
				t.Fatalf("%q, written %d times, has marks %d", key, version, e.Marks)
			case e.Weight < 0 || e.Mode != k.mode:
				t.Fatalf("%q is %s with weight %d", key, e.Mode, e.Weight)
			}
			reveal(&e, kv)
		}
		if (e.Foreign || e.Valued) && string(e.Data) != string(value) {
			t.Fatalf("the data %q of %q was changed to %q", value, key, e.Data)
		}
	})
}

// FuzzNamesOfQueues reads keys back to names: a queue is found by the name that is shown
// for it, and no two names share a key.
func FuzzNamesOfQueues(f *testing.F) {
	f.Add("fairlock/orders%2Fsettle/1.0", "orders", "orders/settle")
	f.Add("fairlock/%v2/x/limit", "%v2", "x")
	f.Add("fairlock/%fence/1.1", "%fence", "%2Fence")
	f.Add("fairlock/\xff/1.0", "a", "a/")
	f.Add("fairlock/%zz/1.0", "\x01", "%01")
	f.Add("/", "", "/")
	f.Fuzz(func(t *testing.T, key, a, b string) {
		for _, lay := range []layout{{root: DefaultRoot}, {root: "a/b"}, {root: DefaultRoot, kind: LayoutConcurrency}} {
			if name, from, ok := lay.queueOf(key); from <= key && strings.HasPrefix(key, lay.root+"/") || ok && name == "" {
				t.Fatalf("%s: %q is in %q, and goes on at %q", lay.kind, key, name, from)
			} else if ok && strings.HasPrefix(key, lay.root+"/") && !strings.HasPrefix(key, lay.prefix(name)) {
				t.Fatalf("%s: %q is not in the queue %q", lay.kind, key, name)
			}
			if a == b || lay.kind == LayoutConcurrency || strings.Contains(a+b, "\x00") { // no name has that
				continue
			}
			for _, of := range []func(string) string{lay.prefix, lay.side} {
				if pa, pb := of(a), of(b); strings.HasPrefix(pa, pb) {
					t.Fatalf("%q and %q meet in %q", a, b, pa)
				}
			}
			if pa := lay.prefix(a); lay.isInternal(pa) {
				t.Fatalf("%q is a queue below %q", a, pa)
			}
		}
	})
}

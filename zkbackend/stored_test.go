package zkbackend

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// FuzzStored reads what anybody may have put into a line's folder, or beside it.
// Whatever it is, it is an entry like any other or none, and no limit but one
// whose name is its number.
func FuzzStored(f *testing.F) {
	f.Add("0123456789abcdefx-lock-0000000001\n_c_x-lock-2147483647\nlock--2147483648", []byte("0123456789abcdef clean"))
	f.Add("0123456789abcdefw3-lock-0000000001\n0123456789abcdef-__WRIT__0000000002", []byte(`{"v":1,"token":-5,"admitted":true}`))
	f.Add("0123456789abcdefv-latch-0000000001\nREADME\n%beside\n8", []byte("fairlock1 x"))
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
		}
		if l, err := children.limit("/x"); err == nil && (l.limit < 0 || l.limit > 0 && len(children.names) != 1) {
			t.Fatalf("%q is a limit of %d", names, l.limit)
		}
		readLedgerLine(data)
		readAddition(data)
		isMark(data, "x")
		watching(data)
	})
}

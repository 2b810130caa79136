package onzk

import (
	"regexp"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/internal/zkframe"
)

// The kinds of requests whose replies can be lost. Fairlock creates and deletes entries in
// transactions, and zk.Lock in single requests.
const (
	Create      = "create" // of an entry
	GetChildren = "getChildren2"
	GetData     = "getData"
	Sync        = "sync" // Fairlock's heartbeats too
	Delete      = "delete"
	Ping        = "ping" // the client library's heartbeats
)

// isEntry matches the paths of entries of all locks.
var isEntry = regexp.MustCompile(`/[^/]*(lock-|__READ__|__WRIT__)[0-9]{10}$`)

// kindOf returns the kind of a request; "" if it is none of these.
func kindOf(f zkframe.Frame) string {
	switch f.Op() {
	case zkframe.OpGetChildren2:
		return GetChildren
	case zkframe.OpGetData:
		return GetData
	case zkframe.OpSync:
		return Sync
	case zkframe.OpPing:
		return Ping
	case zkframe.OpCreate, zkframe.OpDelete, zkframe.OpMulti:
		kind := ""
		for _, p := range f.Parts() {
			switch {
			case p.Op == zkframe.OpCreate && p.Flags&zk.FlagSequence != 0:
				return Create
			case p.Op == zkframe.OpDelete && isEntry.MatchString(p.Path):
				kind = Delete
			}
		}
		return kind
	}
	return ""
}

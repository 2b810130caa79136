package zookeeper

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/zktest"
)

// foreignNames are names that another program may give a node in a queue. Those that end
// with a dash get a sequence number from the server, the others have a number of their own.
func foreignNames() (entries, others []string) {
	const guid = "0123456789abcdef"
	entries = []string{
		"_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-lock-", guid + "x-lock-", guid + "-lock-", "-lock-", guid + "v-lock-", guid + "xv-lock-",
		guid + "w1-lock-", guid + "w0-lock-", guid + "w-1-lock-", guid + "w9223372036854775807-lock-", guid + "w99999999999999999999-lock-",
		guid + "w01-lock-", guid + "xw3-lock-", guid + "vw3-lock-", guid + "x-__WRIT__", guid + "-__READ__", "-__READ__", "-__WRIT__",
		guid + "x__lock__", guid + "__rlock__", "__lock__", guid + "-latch-", "latch-", strings.ToUpper(guid) + "x-lock-",
		guid + "x-lock-lock-", "READ__lock-", strings.Repeat("k", 4000) + "-lock-",
		guid + "x-lock-2147483647", guid + "x-lock-9999999999", guid + "x-lock--2147483648", guid + "x-lock-0000000000", "lock-0000000000",
		guid + "-__READ__-000000001", guid + "x-lock--000000000",
	}
	others = []string{
		"lock-1", "lock-00000000001", "lock-000000000", "x-lock--00000000001", "README", "%", "%beside", "%v2", "limit", "%2F", "☃",
		guid + "x-lock-0x00000001", "lock-٠٠٠٠٠٠٠٠٠٠",
	}
	return entries, others
}

// mostBytes is less than a server takes, since it keeps its last 500 transactions
// in memory, and these have a small one.
const mostBytes = 20 << 10

// sequential reports whether the server gives the sequence number.
func sequential(name string) bool { return strings.TrimRight(name, "0123456789") == name }

// putForeign puts some of these entries into a folder, some nodes that are no entries, and
// one last entry.
func putForeign(t testing.TB, e *zktest.Ensemble, dir string, from, to int) both.ForeignEntries {
	entries, others := foreignNames()
	values := both.Values(mostBytes)
	most, last := e.Client(t), e.Client(t)
	put := func(conn *zk.Conn, name string, value string) {
		flags := int32(zk.FlagEphemeral)
		if sequential(name) {
			flags |= zk.FlagSequence
		}
		_, err := conn.Create(dir+"/"+name, []byte(value), flags, zk.WorldACL(zk.PermAll))
		require.NoError(t, err, name)
	}
	for i := from; i < to; i++ {
		put(most, entries[i], values[i%len(values)])
	}
	for i, name := range others {
		_, err := most.Create(dir+"/"+name, []byte(values[(from+i)%len(values)]), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err, name)
	}
	put(last, "_c_5c7cd5ab-0002-4be5-9d4f-08ea00d0dd35-lock-", values[from%len(values)])
	return both.ForeignEntries{Count: to - from + 1, Leave: func() func() {
		most.Close()
		return last.Close
	}}
}

package doctor

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session/driver"
)

// stores are the rows of the tables in the documentation, by how they begin, and what doctor reports
// there.
var stores = map[string]driver.Keeps{
	"etcd, ZooKeeper": {},
	"PostgreSQL, one server; or each commit waits for every standby":    pgbackend.Report{Fsync: true, Copies: 2, Awaited: 2}.Keeps(),
	"PostgreSQL, each commit waits for a majority of the servers":       pgbackend.Report{Fsync: true, Copies: 2, Awaited: 1}.Keeps(),
	"PostgreSQL, standbys that commits do not wait for":                 pgbackend.Report{Fsync: true, Copies: 1}.Keeps(),
	"PostgreSQL, `fsync=off`":                                           pgbackend.Report{Copies: 1, Awaited: 1}.Keeps(),
	"etcd, ZooKeeper; PostgreSQL without standbys, or with synchronous": pgbackend.Report{Fsync: true}.Keeps(),
	"PostgreSQL, asynchronous standbys":                                 pgbackend.Report{Fsync: true, Copies: 2}.Keeps(),
	"Redis, Valkey":                                                     redisKeeps("noeviction", 2, 3),
	"Redis, one server":                                                 redisKeeps("noeviction", 0, 1),
	"Redis, more replicas than `Nodes` counts":                          redisKeeps("noeviction", 3, 3),
	"Redis, `maxmemory-policy` `allkeys-*`":                             redisKeeps("allkeys-lru", 0, 1),
}

// redisKeeps returns what doctor reports of a master with replicas, where the root counts some nodes.
func redisKeeps(policy string, replicas, nodes int) driver.Keeps {
	master := redisbackend.Server{Addr: "a:1", Policy: policy, Attached: make([]redisbackend.Replica, replicas)}
	return redisbackend.Report{Servers: []redisbackend.Server{master}, Master: "a:1", Nodes: nodes}.Keeps()
}

// keepsOf returns what doctor reports for a row of a table: that of the longest beginning.
func keepsOf(row string) (keeps driver.Keeps, known bool) {
	longest := 0
	for begins, k := range stores {
		if strings.HasPrefix(row, begins) && len(begins) > longest {
			keeps, known, longest = k, true, len(begins)
		}
	}
	return keeps, known
}

func TestTheTablesOfTheDocumentationHaveTheWordsOfDoctor(t *testing.T) {
	for page, want := range map[string]int{"../../../../README.md": 3, "../../../../docs/guarantees.md": 9} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		_, table, ok := strings.Cut(string(text), "\n| Store | Exclusion | Order | Tokens |")
		require.True(t, ok, page)
		_, table, _ = strings.Cut(table, "\n|---")
		rows := 0
		for line := range strings.Lines(table[strings.IndexByte(table, '\n')+1:]) {
			row, ok := strings.CutPrefix(line, "| ")
			if !ok {
				break
			}
			rows++
			k, known := keepsOf(row)
			require.True(t, known, row)
			assert.Equal(t, []string{k.Exclusion.String(), k.Order.String(), k.Tokens.String()}, cells(row), row)
		}
		assert.Equal(t, want, rows, page)
	}
}

// cells returns the three cells of a row behind the first.
func cells(row string) []string {
	row = strings.TrimSuffix(strings.TrimSpace(row), " |")
	return strings.Split(row, " | ")[1:4]
}

package etcd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// foreignNames are what another client may call a key in a queue: in our form with the lease
// that is called ours, nearly in our form, and in none.
func foreignNames(ours string) []string {
	return []string{
		ours + ".0", ours + ".1.r", ours + ".2.w1", ours + ".3.w9223372036854775807", ours + ".4.v", ours + ".5.w3.v", ours + ".6.r.v", ours + ".7.x",
		ours + ".-7", ours + ".8.w-1", ours + ".9.w1e99", ours + ".10.w99999999999999999999", ours + ".2147483648",
		ours + ".99999999999999999999", ours + ".0x1", ours + ".01", ours, ours + ".", "." + ours, "-" + ours + ".0",
		"fffffffffffffffff.0", "ffffffffffffffff.0", "0.0", "x", "\xff\xfe.0", "%v2", "%fence", "a/b", "/", "//", "..",
		"w-1", ".v", ".r", strings.Repeat("k", 20_000),
	}
}

// mostBytes is close to what a server takes in one request.
const mostBytes = 900 << 10

// putForeign puts some of these keys into a queue, and one last key.
func putForeign(t testing.TB, client *clientv3.Client, prefix string, from, to int) both.ForeignEntries {
	ctx := recipetest.Bounded(t)
	grant := func() clientv3.LeaseID {
		l, err := client.Grant(ctx, 120)
		require.NoError(t, err)
		return l.ID
	}
	put := func(key, value string, lease clientv3.LeaseID) {
		_, err := client.Put(ctx, prefix+key, value, clientv3.WithLease(lease))
		require.NoError(t, err)
	}
	most, last := grant(), grant()
	keys, values := foreignNames(fmt.Sprintf("%x", int64(most))), both.Values(mostBytes)
	for i := from; i < to; i++ {
		put(keys[i], values[i%len(values)], most)
		// Once more: a key that was written again may have a meaning.
		put(keys[i], values[i%len(values)], most)
	}
	put("last", values[from%len(values)], last)
	revoke := func(id clientv3.LeaseID) {
		_, err := client.Revoke(ctx, id)
		require.NoError(t, err)
	}
	return both.ForeignEntries{Count: to - from + 1, Leave: func() func() {
		revoke(most)
		return func() { revoke(last) }
	}}
}

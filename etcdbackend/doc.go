// Package etcdbackend keeps the queues of locks in etcd.
//
//	s, err := etcdbackend.Open(ctx, client, nil) // client is a *clientv3.Client, see Requirements
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//
// Open uses a client that the program already has and never closes it; Dial makes one
// of its own. Both return a session.Session, on which the recipes work.
//
// # Keys
//
// A session is one lease, whatever the number of locks. An entry is one key on that
// lease:
//
//	fairlock/<name>/<lease in hex>.<index>       a mutex, a candidate
//	fairlock/<name>/<lease in hex>.<index>.x     a writer, which can become a reader
//	fairlock/<name>/<lease in hex>.<index>.r     a reader
//	fairlock/<name>/<lease in hex>.<index>.w3    a semaphore's request for 3 permits
//	fairlock/<name>/<lease in hex>.<index>.v     a candidate with a value
//
// The create revision of the key is both its place in the queue and its fencing token.
// The index is a small number that is used again, because etcd keeps every key name
// until it compacts: with a new name for each acquisition, a lock that was acquired
// 100 000 times would take 15 ms instead of 0.4 ms.
//
// The value of an entry is small JSON that describes its owner, or a candidate's value.
// Marks are added as a last line, which begins with "#": "#shared" for a writer that has
// become a reader, "#admitted" for a semaphore's request that holds. Both keep their key,
// and so their place and their token.
//
// The records of a queue are not under its name, so that no program takes them for
// entries. "v2" is the version of their form:
//
//	fairlock/%v2/<name>/limit            the limit of a semaphore, in decimal
//	fairlock/%v2/<name>/ledger           how the last hold of a robust mutex ended
//	fairlock/%v2/<name>/done             the record of finished work (mutex.Once)
//	fairlock/%v2/<name>/slot/<number>    the hold that has this slot
//	fairlock/%v2/<name>/%detail/<entry>  more about an entry
//	fairlock/%v2/<name>/%first/<entry>   the place of an entry that was first when it left
//	fairlock/%v2/<name>/%asks/           the yield requests, entries of a queue of their own
//
// The first three stay until they are deleted. The others are on the lease of their
// session and end with it; a release deletes those of its entry. Only the place of one that
// was first stays for some seconds, until it is clear that it will not be written again.
//
// Programs that write records in different versions still share the queue, because the
// keys of entries are the same in all versions. So their locks exclude each other. Limits,
// ledgers and finished work are not shared. The first version was under fairlock/%beside/.
//
// A key under fairlock/%fence/ keeps a join whose answer was lost from being carried out
// late. One such key is written to find out whether the lease still exists. A key under
// fairlock/%witness/ shows whether a request was carried out. Both kinds are on the lease.
//
// In a name, "%", "/" and control characters are written as %XX, so that the names "a"
// and "a/b" never meet. LayoutConcurrency uses the name as it is, without the root, for
// entries. It shares the queue with the Mutex of etcd's package concurrency, with
// "etcdctl lock" and with the server's v3lock service.
//
// # Requirements
//
// The servers must be etcd 3.4.31 or newer, 3.5.13 or newer, or any release from 3.6.0 on.
// docs/operations.md has the reasons, in "Versions of etcd".
//
// With authentication, the user needs permission to read and write under the root; in
// LayoutConcurrency under the names and under the root. That covers the leases too.
//
// A leader of etcd renews leases in its memory, also when another one was elected that it
// does not know of yet. So a linearizable read from each endpoint goes with each renewal,
// which counts only if one of them shows that no other leader was elected.
//
// A client that the program makes itself should set DialKeepAliveTime (10 s) and
// DialKeepAliveTimeout (3 s), because without them gRPC sends requests into a dead
// connection for a quarter of an hour. It should know every endpoint of the cluster.
// Requests have timeouts, and leases are renewed over several endpoints at once, so a
// session survives without these settings, but each request may first try the dead
// connection.
//
// A client whose KV, Watcher or Lease was replaced is refused. Instead of package
// namespace use Options.Root; to observe requests use gRPC interceptors. A gRPC proxy
// between client and server is not supported.
//
// Do not restore an etcd snapshot while clients are running. With "--bump-revision" and
// "--mark-compacted" revisions do not go back, and tokens neither; but entries that were
// released since the snapshot are there again, as long as their leases are renewed. Without
// these, a session that notices it ends.
package etcdbackend

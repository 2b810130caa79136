// Package etcdbackend keeps the lines of locks in etcd.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
//	s, err := etcdbackend.Open(ctx, client, nil)
//	defer s.Close()
//
// [Open] works on a client that the program has anyway and never closes it;
// [Dial] makes one of its own. Either way the answer is a [session.Session],
// from which recipes make locks.
//
// # What is in etcd
//
// A session is one lease, whatever the number of locks. An entry is one key on
// that lease,
//
//	fairlock/<name>/<lease in hex>.<slot>        a mutex, a writer, a candidate
//	fairlock/<name>/<lease in hex>.<slot>.r      a reader
//	fairlock/<name>/<lease in hex>.<slot>.w3     a semaphore's request for 3
//	fairlock/<name>/<lease in hex>.<slot>.v      a candidate with a value
//
// and its create revision is at once its place in the line and its fencing
// token. Slots are small numbers that are used again, because etcd remembers
// every key name until it compacts: with a fresh name per acquisition a lock
// that was taken 100 000 times takes 15 ms instead of 0.4. Keys under
// fairlock/%fence/ are not entries; they keep a request whose answer was lost
// from being carried out late, and go with the lease. What else a line needs lies
// beside it, where nobody takes it for an entry:
//
//	fairlock/%beside/<name>/limit                how much a semaphore has, in decimal; stays
//	fairlock/%beside/<name>/ledger               who holds, or that the last one gave back; stays
//	fairlock/%beside/<name>/done                 which work is done (mutex.Once); stays
//	fairlock/%beside/<name>/slot/<number>        who has this number
//	fairlock/%beside/<name>/meta/<lease>.<slot>.v  who stands there, since the value is the user's
//	fairlock/%beside/<name>/asks/                those who ask that somebody yields, and why
//
// The value of an entry is small JSON that says who stands there, and, once that
// is so, that a writer has become a reader or that a request for permits was
// admitted: both keep their key, and so their place and their token.
//
// In a name, "%", "/" and control characters are written as %XX, so that the
// names "a" and "a/b" never meet. [LayoutConcurrency] uses the name as it is,
// without the root, and so stands in one line with the Mutex of etcd's package
// concurrency, with "etcdctl lock" and with the server's v3lock service.
//
// # What it asks of the user
//
// etcd 3.5.8 or newer, or 3.4.25 or newer of the series 3.4. Open asks one member
// for its version and refuses an older one. Where the version cannot be learned, a
// waiter reads its own entry before every grant, which costs one read more.
//
// With authentication: read and write permission on the root, or in
// LayoutConcurrency on the names and on the root. That is enough for the leases
// too.
//
// Of a client that the program makes itself: DialKeepAliveTime (10 s) and
// DialKeepAliveTimeout (3 s), because without them gRPC sends requests into a
// dead connection for a quarter of an hour; and every endpoint of the cluster.
// Requests carry timeouts and leases are renewed over several endpoints at
// once, so that a session survives without, but each request may then meet the
// dead connection first.
//
// A client whose KV and Watcher were replaced (package namespace, or an
// instrumented one) works, with one read more for every waited grant: its
// watches do not tell in which order things happened. A gRPC proxy between
// client and server is not supported.
//
// Do not restore an etcd snapshot under living clients without
// "--bump-revision" and "--mark-compacted": revisions would go back, and tokens
// with them.
package etcdbackend

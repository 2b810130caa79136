// Package zkbackend keeps the queues of locks in ZooKeeper.
//
//	s, err := zkbackend.Open(ctx, []string{"zk-1:2181", "zk-2:2181", "zk-3:2181"}, nil)
//	defer s.Close()
//
// Open makes its own connections, and returns a session.Session, on which the recipes
// work.
//
// # Nodes
//
// A session is one ZooKeeper session, whatever the number of locks. A lock's name is a
// path below the root, and an entry is an ephemeral sequential node there:
//
//	/fairlock/<name>/<16 hex>x-lock-<sequence>       a mutex
//	/fairlock/<name>/<16 hex>x-__WRIT__<sequence>    a writer
//	/fairlock/<name>/<16 hex>x-__READ__<sequence>    a reader
//	/fairlock/<name>/<16 hex>w3-lock-<sequence>      a semaphore's request for 3 permits
//	/fairlock/<name>/<16 hex>v-latch-<sequence>      a candidate, with a value
//
// The sequence number is the entry's place in the queue. Its fencing token is its
// czxid, the transaction that created it: the sequence begins at 0 again when an idle
// folder was removed, and the czxid never goes back. The 16 hexadecimal digits are
// random, so that no late request can meet another request's entry. A reader that was a
// writer keeps its place and its token, which its data contains.
//
// Only its own session may write an entry: each session has a login of its own for
// that, next to those in Options.Auth. So a holder can notify the waiter behind it that
// it held, by writing its entry when it releases, and a hand-off needs no read. The x
// marks an entry whose change means this. Entries that change during their life, w and
// v, have no x. Curator's Revoker cannot write such an entry. On servers that do not
// enforce permissions there is no x, and the holder writes into the folder's data
// instead.
//
// The records of a queue are not in its folder, because other programs would take them
// for entries:
//
//	/fairlock/%beside/<name>/limit/<n>       the limit; stays until an operator deletes it
//	/fairlock/%beside/<name>/holders/        the entries that hold permits after a wait
//	/fairlock/%beside/<name>/slot/<n>        the entry that has this slot
//	/fairlock/%beside/<name>/meta/           the owners of entries with a value
//	/fairlock/%beside/<name>/ledger          the holder; none if the last one released cleanly
//	/fairlock/%beside/<name>/done            the record of finished work (mutex.Once); stays
//	/fairlock/%beside/<name>/asks/           the yield requests, with their reasons
//
// There the name is one part of the path, with %2F for "/".
//
// Folders are containers, which the servers remove when they have been empty for a
// while; their data is used. Children that are not entries are left alone. In a name,
// characters that ZooKeeper refuses in a path, and "%", are written as %XX.
//
// The queue is shared with other programs on the same path: Curator's InterProcessMutex
// and go-zookeeper's zk.Lock in LayoutCurator, Kazoo's Lock in LayoutKazoo. Take a log
// message about "several protocols in one queue" seriously: clients of different
// protocols do not see each other, and can hold at the same time.
//
// # The deadline
//
// A standalone server counts a session's timeout from the last request that it
// received. In an ensemble the leader counts, from the reports of the followers. A
// follower that is cut off from its leader still answers pings for up to syncLimit ×
// tickTime, while the leader lets the session expire and passes on its locks. So in an
// ensemble only a heartbeat that the leader answers (Sync) counts as a renewal, and the
// trust window begins two heartbeats before the newest; see Proof. Heartbeats are an
// eighth of the TTL apart, and in an ensemble at least 1.25 ticks: set Options.TickTime
// if it is not 2 s.
//
// Only ProofQuorum detects a deposed leader that has not yet noticed.
//
// Observers that are connected to a follower (observerMasterPort) report their clients
// to the leader in two steps, and ProofSync allows for one. Give Open the addresses of
// voters, or of observers that are connected to the leader, or use ProofQuorum.
//
// # The end of the sequence
//
// A folder's sequence has 31 bits: 25 days at a thousand acquisitions a second. After
// that, ZooKeeper assigns the same number again and again, and stock clients would all
// hold at once. A request here that gets one of the last million numbers waits outside
// the queue until the folder is empty, and then restarts the sequence. If other
// programs keep the folder from emptying, Lock returns ErrSequence.
//
// # Requirements
//
// The servers must be ZooKeeper 3.5.3 or newer, for containers. The login needs the
// permissions READ, WRITE, CREATE and DELETE on the folders of locks, and CREATE on the
// root, or on the node above it if the root must be created. The session timeout must
// be within the servers' bounds: by default 2 to 20 ticks, that is 4 to 40 s.
//
// Listing the names of locks needs READ on every folder below the root, including those
// of other applications that share it; a folder without that permission is left out. So
// give locks a root of their own.
//
// All servers must have the same jute.maxbuffer. No request longer than its default of
// 1 MB is sent. A server with a smaller one closes the connection on a longer request,
// which fails after three attempts. An answer of more than 64 MiB is refused too.
//
// Do not restore a server's data from a backup while clients are running: czxids would
// go back, and tokens with them.
package zkbackend

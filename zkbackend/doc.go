// Package zkbackend keeps the lines of locks in ZooKeeper.
//
//	s, err := zkbackend.Open(ctx, []string{"zk-1:2181", "zk-2:2181", "zk-3:2181"}, nil)
//	defer s.Close()
//
// [Open] makes its own connections. The answer is a [session.Session], from
// which recipes make locks.
//
// # What is in ZooKeeper
//
// A session is one ZooKeeper session, whatever the number of locks. A lock's
// name is a path below the root, and an entry is an ephemeral sequential node
// there,
//
//	/fairlock/<name>/<16 hex>x-lock-<sequence>       a mutex
//	/fairlock/<name>/<16 hex>x-__WRIT__<sequence>    a writer
//	/fairlock/<name>/<16 hex>x-__READ__<sequence>    a reader
//	/fairlock/<name>/<16 hex>w3-lock-<sequence>      a semaphore's request for 3
//	/fairlock/<name>/<16 hex>v-latch-<sequence>      a candidate, with a value
//
// whose sequence number is its place in the line. Its fencing token is the
// czxid, the transaction that created it: the sequence begins at 0 again when an
// idle folder was removed, the czxid never goes back. The 16 digits are random,
// so that no late request can meet another's entry. A reader that was a writer
// keeps its number and its token, which it then says itself.
//
// Only its own session may write an entry: each has a login of its own for that,
// beside those that the user gives. So a holder can tell whoever stands behind
// that it held, by writing its entry as it goes, and a hand-off takes no read; the
// x says that a change means this. Entries that are changed while they stand, w
// and v, have no x. Curator's Revoker is refused. On servers that do not enforce
// permissions there is no x, and the holder leaves word in the folder's data.
//
// What belongs to a line and is no entry lies beside it, since others stumble over
// it in the line's folder:
//
//	/fairlock/%beside/<name>/limit/<n>       the limit; stays until somebody deletes it
//	/fairlock/%beside/<name>/holders/        the entries that were admitted
//	/fairlock/%beside/<name>/slot/<n>        whose number that is
//	/fairlock/%beside/<name>/meta/           what entries with a value say of themselves
//	/fairlock/%beside/<name>/ledger          who holds; none if the last gave back
//	/fairlock/%beside/<name>/done            which work is done (mutex.Once); stays
//	/fairlock/%beside/<name>/asks/           those who ask that somebody yields
//
// The name is one part of the path there, with %2F for "/".
//
// Folders are containers, which the servers remove when they have been empty for
// a while; their data is used. Children that are no entries are left alone; what
// ZooKeeper does not take in a path, and "%", is written as %XX.
//
// The line is shared with other programs on the same path: Curator's
// InterProcessMutex and go-zookeeper's zk.Lock in [LayoutCurator], Kazoo's Lock
// in [LayoutKazoo]. What the log says of "several protocols in one line" is to
// be taken seriously: they do not see each other.
//
// # The deadline
//
// A server that is alone counts a session's timeout from the request that it
// received last. In an ensemble the leader counts, from what the followers
// report; a follower that was cut off from its leader goes on answering pings
// for up to syncLimit × tickTime while the leader lets the session expire and
// gives its locks away. So with an ensemble the proof is a heartbeat that the
// leader answers (Sync), and it counts from two heartbeats before the newest;
// see [Proof]. Heartbeats are an eighth of the TTL apart, on an ensemble at
// least 1.25 ticks: tell [Options].TickTime if it is not 2 s.
//
// Of the deposed leader that does not know it yet only [ProofQuorum] knows.
//
// Observers that are connected to a follower (observerMasterPort) report their
// clients to the leader in two steps, and [ProofSync] counts on one. Give Open the
// addresses of voters, or of observers that are connected to the leader, or use
// [ProofQuorum].
//
// # The numbers at the end
//
// A folder's sequence has 31 bits: 25 days at a thousand acquisitions a second.
// Beyond, ZooKeeper hands out the same number again and again, and stock clients
// all hold at once. Whoever gets one of the last million numbers here waits
// beside the line until it is empty and begins it anew; where others keep it
// from emptying, Lock returns [ErrSequence].
//
// # What it asks of the servers
//
// ZooKeeper 3.5.3 or later, for containers. Permissions READ, WRITE, CREATE and
// DELETE on the folders of locks, and CREATE on the root, or on what lies above
// it if that is to be made. The session timeout within what the servers allow:
// by default 2 to 20 ticks, so 4 to 40 s.
//
// Listing the names of locks takes READ on every folder below the root, those of
// other applications included if they share it; a folder that may not be read is
// left out. So give locks a root of their own.
//
// The same jute.maxbuffer on all servers. Above its default of 1 MB nothing is
// sent. A server with a smaller one closes the connection on a longer request,
// which is refused after three attempts; and an answer of more than 64 MiB is
// refused too.
//
// Do not restore a server's data from a backup under living clients: czxids
// would go back, and tokens with them.
package zkbackend

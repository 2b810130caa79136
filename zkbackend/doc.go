// Package zkbackend keeps the queues of locks in ZooKeeper.
//
//	s, err := zkbackend.Open(ctx, []string{"zk-1:2181", "zk-2:2181", "zk-3:2181"}, nil)
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//
// Open makes its own connections, and returns a session.Session, on which the recipes
// work.
//
// # Nodes
//
// A session is one ZooKeeper session for all its locks. A lock's name is a path below the
// root, and an entry is an ephemeral sequential node there:
//
//	/fairlock/<name>/<16 hex>x-lock-<sequence>       a mutex
//	/fairlock/<name>/<16 hex>x-__WRIT__<sequence>    a writer
//	/fairlock/<name>/<16 hex>x-__READ__<sequence>    a reader
//	/fairlock/<name>/<16 hex>w3-lock-<sequence>      a semaphore's request for 3 permits
//	/fairlock/<name>/<16 hex>xv-lock-<sequence>      a candidate, with a value
//	/fairlock/<name>/<16 hex>v-latch-<sequence>      a candidate among Curator's
//
// The sequence number is the entry's place in the queue. Its fencing token is its czxid,
// the transaction that created it: the sequence begins at 0 again when an idle folder was
// removed, and the czxid never goes back. The 16 hexadecimal digits are random, so that no
// late request can meet another request's entry. A writer that became a reader keeps its
// name, and its node is made anew: its data ends with a line that has its token. The data
// of a semaphore's request that holds, after a wait or for 50 ms, ends with the line "#admitted".
//
// Only its own session may write an entry: each session has a login of its own for that,
// next to those in Options.Auth. So a holder can notify the waiter behind it that it held,
// by writing its entry when it releases, and a hand-off needs no read. The x marks an
// entry whose change means this. Curator's Revoker cannot write such an entry. On servers
// that do not enforce permissions there is no x, and a waiter reads the queue when the
// entry ahead of it is gone.
//
// What else belongs to a queue is not in its folder, because other programs would take it
// for entries. There the name is one part of the path, with %2F for "/":
//
//	/fairlock/%v2/<name>/details/<16 hex>           a description of the entry's owner
//	/fairlock/%v2/<name>/holders/<16 hex>           the entries that are marked as holding permits
//	/fairlock/%v2/<name>/records/<record>           a record: its value, and its version
//	/fairlock/%v2/<name>/records/<record>@<version> is there for as long as that version is
//	/fairlock/%v2/<name>/asks/queue/                the yield requests
//
// Records are the limit of a semaphore and its slots, the ledger of a robust mutex, and
// the list of finished work (mutex.Once). To delete one by hand, delete both its nodes.
//
// Folders are containers, which the servers remove when they have been empty for a while.
// A join writes its folder, with empty data. So a node of another program that has data is
// no queue: the first join of a session there is refused with session.ErrRefused, and
// nothing is changed. Not handled: data that another program writes into the folder of a
// queue in use is lost with the next join. Children that are not entries are left alone. In
// a name, characters that ZooKeeper refuses in a path, and "%", are written as %XX.
//
// This is the second version of the layout, as "%v2" shows. The names of entries do not
// show it: processes of both versions take each other's entries for their own kind, and
// wait for them. But a waiter of the second version takes the downgrade of a writer of the
// first for its end, and can hold next to the reader. Records and yield requests of one
// version are unknown to the other. Nothing detects a process of another version. So stop
// all processes of the first version before those of the second begin.
//
// The queue is shared with other programs on the same path: Curator's InterProcessMutex
// and go-zookeeper's zk.Lock in LayoutCurator, Kazoo's Lock in LayoutKazoo. Do not mix
// programs of different protocols in one queue: they do not see each other, and can hold
// at the same time. Nothing detects that; a session here sees the entries of all of them,
// so its own requests wait for each. Curator's readers behind a writer that was downgraded wait for its
// unlock.
//
// # The deadline
//
// A standalone server counts a session's timeout from the last request that it received.
// In an ensemble the leader counts, from the reports of the followers. A follower that is
// cut off from its leader still answers pings for up to syncLimit × tickTime, while the
// leader lets the session expire and passes on its locks. So in an ensemble only a
// heartbeat that the leader answers (Sync) counts as a renewal, and the trust window
// begins two heartbeats before the newest; see Proof. Heartbeats are an eighth of the TTL
// apart, and in an ensemble at least 1.25 ticks: set Options.TickTime if it is not 2 s. A
// value below the servers' own voids this argument.
//
// Only ProofQuorum detects a deposed leader that has not yet noticed.
//
// Observers that are connected to a follower (observerMasterPort) report their clients to
// the leader in two steps, and ProofAuto allows for one. Give Open the addresses of
// voters, or of observers that are connected to the leader, or use ProofQuorum.
//
// # The end of the sequence
//
// A folder's sequence has 31 bits: 25 days at a thousand acquisitions a second. After
// that, ZooKeeper assigns the same number again and again, and stock clients would all
// hold at once. A request here that gets one of the last million numbers is refused with
// ErrSequence, and those before it are served. A folder that is made anew counts from 0: the
// servers remove it when it has been empty for about a minute, or an operator deletes it when
// the queue is empty. It stays while it has the folders of other locks, or the entries of
// programs that do not know of the last numbers.
//
// # Requirements
//
// The servers must be ZooKeeper 3.5.3 or newer, for containers. The login needs the
// permissions READ, WRITE, CREATE and DELETE on the folders of locks, READ on its own
// entries, and CREATE on the root, or on the node above it if the root must be created.
// Servers with localSessionsEnabled need localSessionsUpgradingEnabled too: a local session
// cannot have an entry, and ends as if it had expired. Entries that it may not
// read, of other programs, count as all others, and are shown without a token. The
// session timeout must be within the servers' bounds: by default 2 to 20 ticks, that is 4
// to 40 s. All servers must have the same bounds: one that grants less than the others
// can expire a session, which comes to it, before its deadline.
//
// Every connection logs in, with Options.Auth and with the certificate of Options.TLS. There
// are no logins by SASL: where servers require one (sessionRequireClientSASLAuth), or one of a
// scheme that a session does not have (enforce.auth.schemes), Open returns session.ErrDenied.
// Where they only require some login by password, a session without one has its own, see
// Options.ACL.
//
// Listing the names of locks needs READ on every folder below the root, including those of
// other applications that share it; a folder without that permission is left out, but
// without it on the root itself the listing fails. So give locks a root of their own.
//
// All servers must have a jute.maxbuffer of at least its default, 1 MB. No longer request is
// sent, and an answer of more than 64 MiB is refused. Not handled: a server with a smaller
// jute.maxbuffer closes the connection on a longer request, and a network that carries less
// than a request in a quarter of the TTL loses it too. Then the session sends the request
// again until its context ends, and its other requests wait behind it. Only the value of a
// candidate can be that long.
//
// # The size of a session
//
// The transaction that ends a session names all its nodes. A server cannot read one that is
// longer than jute.maxbuffer and jute.maxbuffer.extrasize together, 2 MB by default, but a
// leader writes it. Then its followers leave it, and it does not start again with that log;
// and the same happens to the next leader, when the session expires there
// (ZOOKEEPER-4306). So a session has at most 10 500 entries, and a request for permits is
// refused if there are 4 000: with session.ErrRefused, before anything is sent. This is for
// names of up to 50 bytes below the default root. With longer ones a session has fewer, in
// proportion: 1280 with names of 512 bytes, and 430 if all their characters are escaped.
// What is released makes room again. Not handled: a session that joins hundreds of queues
// with the longest names and thousands of others can have more than that transaction holds.
//
// # Backups and operators
//
// Do not restore a server's data from a backup while clients are running: czxids would go
// back, and tokens with them. Restart the programs after a change of the servers' skipACL or
// digestAlg: the first session of a backend finds out whether entries can be protected, and
// the later ones rely on that. An operator who writes an entry as "super" makes the waiter
// behind it believe that it was released. So does a program that imitates the names of
// sealed entries, and writes its own entry while another is ahead.
package zkbackend

// Package fairlock provides fair, fenced distributed locks for Go on etcd,
// ZooKeeper, PostgreSQL and Redis. The locks are in the packages below recipes. They work on a
// [session.Session], which a backend opens. Package stores opens one on the
// service that a URL names; programs that need only one backend call it
// directly and link that one alone. This package has only documentation.
//
//	s, err := etcdbackend.Open(ctx, client, nil) // on your *clientv3.Client; once, for months
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer s.Close()
//
//	m := mutex.New(s, "orders/settle")
//	err = m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
//		return settle(ctx, h.Token()) // ctx is cancelled if the lock is lost
//	})
//
// # Packages
//
//	session            Session, Hold, Token, errors, hooks: shared by all recipes
//	recipes/mutex      a mutex, and several locks acquired as one
//	recipes/rwlock     a read-write lock
//	recipes/semaphore  a weighted semaphore, with slots if wanted
//	recipes/election   leader election and its observers
//	fence              the rules of a resource that checks tokens
//	etcdbackend        queues in etcd; a module of its own, as etcdtest and stores
//	zkbackend          queues in ZooKeeper
//	pgbackend          queues in PostgreSQL; a module of its own, as pgtest
//	redisbackend       queues in Redis and Valkey; a module of its own, as redistest
//	membackend         queues in memory, with faults on demand, for unit tests
//	stores             a session on the service that a URL names
//	telemetry          metrics; telemetry/prometheus and telemetry/otel, modules of
//	                   their own, show them, and telemetry/otel makes traces;
//	                   telemetry/health answers probes, telemetry/waits shows
//	                   which calls of the process wait
//	ui                 a page that shows the queues, for a mux of one's own
//	etcdtest           starts a real etcd, or several members, for a test
//	zktest             starts a real ZooKeeper, or several servers, for a test
//	pgtest             starts a real PostgreSQL, with standbys and poolers, for a test
//	redistest          starts a real Redis, with replicas, Sentinels or a cluster, for a
//	                   test; a module of its own
//	testnet            proxies and certificates that break on demand, for tests
//	fault              the names of faults, for tests
//	session/driver, session/driver/drivertest, recipes/recipetest
//	                   for authors of a backend: the contract and its suites
//
// # Losing a lock
//
// A hold has a context. It is cancelled when the hold ends, and context.Cause
// returns the reason: a [session.LostError], or [session.ErrReleased] after Unlock.
// A hold can be lost because the network is cut or the service is down for longer
// than the trust window, and also while everything works: an operator can end the
// session or delete the entry. Stop the work when the context is cancelled. Call
// [session.Hold.Remaining] right before an action that cannot be undone: it reads
// the clock, and is right even where a timer would fire late.
//
// The end of the caller's own context does not release a lock, because the work
// may still be running. Unlock releases it, and so does the return of the function
// given to Do.
//
// # The queue
//
// Every lock is a FIFO queue under a name. A request adds an entry at the end of
// the queue, and the entry holds when the rule of the recipe accepts it: for a
// mutex, when no entry is ahead; for a reader, when no writer is ahead; for a
// semaphore, when its permits and all permits ahead of it fit within the limit. The
// service orders the entries, so requests are granted in the order in which the
// service received them, whatever process they come from. A waiter watches only its
// own entry and those that it waits for: the one right ahead of it, or the holders where
// several may hold. No waiter polls for its turn, and a release wakes the
// waiters that come nearer to their turn, not all of them. Session.Names returns the names
// of the locks, and Session.Queue the holders and waiters of one, with host, pid and label.
//
// # The trust window
//
// The service keeps a session for its TTL after each renewal. The client trusts
// the session for a shorter time:
//
//	sent        acknowledged        contexts cancelled       service may expire the session
//	 |--------------|------------------------|--------------------------|
//	 |<------------ TTL - margin ----------->|<-------- margin -------->|
//
// The window begins when the renewal was sent, not when its answer came. At the end
// of the window the session cancels the contexts of all holds and leaves the service
// session to expire by itself: the margin is the time in which the work stops. Another
// client can hold after that, not before. A window that has ended is never extended;
// the next request opens a new service session.
//
// # Tokens
//
// A hold carries a fencing token from the store's own sequence: etcd's create
// revision, ZooKeeper's czxid. Within one lock tokens rise in the order of grants,
// through restarts and leader changes, for as long as the store lives.
//
// No lock service can protect a resource by itself. A process that was stopped
// resumes in the middle of its work, before its timers run, and writes. So the
// resource must store the highest token that it has seen and refuse every lower
// one, from the first access of each hold on, reads included. Checking writes alone
// is not enough: of all 2520 orders in which four holders can each read and then
// write, it loses an update in 1368; checking the first access loses none. A write
// to the same etcd, ZooKeeper or PostgreSQL can be made conditional on the lock
// itself, with the function Guard of the backend.
//
// Holds that share have tokens too: a resource refuses a writer's token that is
// lower than any token it has seen, and a reader's token that is lower than that of
// any writer it has seen. The holders of a semaphore are fenced by slot. Package
// fence implements the rules.
//
// # Yield requests and evictions
//
// Package recipes/yield sends yield requests, which ask the holders of a lock to release it, with
// a reason. Holders that call its Next are notified of the request and
// may continue for as long as they like; other holders incur no cost. If a holder
// does not end, an operator can delete its entry with [session.Session.Evict]. The
// next waiter then holds before the evicted holder is notified, and only the token
// protects the resource.
//
// # What is left behind
//
// A request that is cancelled leaves the queue. If the service cannot be reached,
// the session repeats the deletion in the background until it is acknowledged or the
// session is over. A request whose answer was lost is resolved, not guessed. The
// entries of a dead process go with its session, after the TTL.
package fairlock

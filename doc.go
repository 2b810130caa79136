// Package fairlock is the manual of Fairlock: fair, fenced locks on a service
// that many processes share. The locks are in the packages below recipes; they
// work over a [session.Session], which a backend opens. All the code here is
// [Open], for programs that are told by a URL where their service is; others call
// a backend, and link that one alone.
//
//	s, err := etcdbackend.Open(ctx, client, nil) // on your *clientv3.Client; once, for months
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer s.Close()
//
//	m := mutex.New(s, "orders/settle")
//	err = m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
//		return settle(ctx, h.Token()) // ctx ends when the lock is lost
//	})
//
// # The line
//
// Every lock is a line under a name. A request puts an entry at the end of the
// line, and holds when the recipe's rule admits it: for a mutex, when nobody is
// ahead; for a reader, when no writer is; for a semaphore, when the permits of
// those ahead and its own are not more than the limit. The service gives the places, so requests are granted in the order in
// which the service received them, whatever process they come from. A waiter
// watches the entries right before its own and nothing else; nobody polls, and
// a release wakes those whose turn it brings nearer, not everybody. The line
// can be looked at: Queue and Names of a session show who holds, who waits, from
// where and since when.
//
// # The trust window
//
// A session lives at the service for its TTL after each renewal. A client
// believes in it for less:
//
//	sent        acknowledged           contexts end            may be given away
//	 |--------------|------------------------|--------------------------|
//	 |<------------------- TTL - margin ---->|<------- margin --------->|
//
// The time is counted from when the renewal was sent, not from when the answer
// came. At the end of the window the contexts of all holds are cancelled, and
// the service session is left alone until it expires by itself: the margin is
// the worker's time to stop. Somebody else can hold after that, not before. The
// window is never opened again; the next request opens a new session.
//
// # Tokens
//
// A hold carries a fencing token from the store's own sequence: etcd's create
// revision, ZooKeeper's czxid. Within one lock tokens rise in the order of grants, over restarts
// and changes of leader, for as long as the store lives.
//
// No lock service can protect a resource by itself. A process that was stopped
// resumes in the middle of its work, its timers not yet run, and writes. So the
// resource must take part: it keeps the highest token it has seen and refuses
// every lower one, from the first touch on, reads included. To fence writes only
// is not enough: of 5000 simulated runs in which a read was followed by a write,
// 1059 lost an update with fenced writes and none with fenced first touches. A
// write to the same etcd or ZooKeeper can be made conditional on the lock itself
// with etcdbackend.Guard or zkbackend.Guard.
//
// Holds that share have tokens too: a writer's must be at least all that were
// seen, a reader's at least that of every writer that was seen, and the holders
// of a semaphore are fenced by slot. Package fence has the rules.
//
// # What can happen to a hold
//
// The hold's context ends, and context.Cause tells why: a [session.LostError]
// with the reason, or [session.ErrReleased]. Loss comes with a network that is
// cut, with a service that is down for longer than the window, and also in full
// health: an operator can end the session or delete the entry. Stop working when
// the context ends; before something that cannot be undone, ask
// [session.Hold.Valid], which reads the clock and is right even where a timer
// would be late.
//
// The end of the caller's own context does not give a lock back, because the
// work may still be running. Only Unlock does, and the return of the function
// given to Do.
//
// # Asking and evicting
//
// Who needs a lock soon may ask: [session.Session.Ask] puts a reason beside the
// line, and a holder that listens ([session.Hold.Asked]) is told who asks and why,
// and goes on for as long as it likes. Who does not listen pays nothing for it.
// Where a holder does not come to an end, an operator can remove its entry
// ([session.Session.Evict]): the next one then holds before the evicted one knows,
// and only the token protects the resource.
//
// # What is left behind
//
// Nothing. A request that is cancelled leaves the line, in the background if the
// service cannot be reached, until that is certain or the session is over. A
// request whose answer was lost is resolved, not guessed. What a dead process
// had goes with its session, after the TTL.
//
// # Packages
//
//	session            Session, Hold, Token, errors, hooks: what everything shares
//	recipes/mutex      the lock that one holds at a time, and several as one
//	recipes/rwlock     many read or one writes
//	recipes/semaphore  a number of permits, with slots if wanted
//	recipes/election   one leads, and everybody can see who
//	fence              the rules of a resource that checks tokens
//	etcdbackend        lines in etcd
//	zkbackend          lines in ZooKeeper
//	membackend         lines in memory, with faults on demand, for unit tests
//	etcdtest           starts a real etcd, or three, for a test
//	zktest             starts a real ZooKeeper, or three, for a test
//	session/driver, session/driver/fault, session/drivertest, recipes/recipetest
//	                   for those who write a backend: the contract and its suites
package fairlock

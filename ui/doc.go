// Package ui serves a page that shows the queues of a lock service live: which locks
// have waiters and for how long, the holders and the waiters of each in order, deadlocks,
// and what to do about a queue that is blocked.
//
//	mux.Handle("/locks/", ui.Handler(s, nil))
//
// The page works below any path that ends with a slash, whether or not the prefix is
// stripped, because all of its links are relative. It loads nothing from another host.
//
// # What it reads
//
// One reader serves all pages. It runs while at least one page is open, and reads every
// Options.Interval at most 256 queues, those that a page shows first and
// then those that were read longest ago. Over time it reads at most 4096 entries each
// interval. With n locks it reads the names after each n/256 intervals, because they cost
// ZooKeeper a request for each folder. So its requests are bounded, whatever the number of
// locks, entries and pages; only folders without a lock are not counted in n. The open lock
// shows how old its queue is. The list does not: with n locks a row of it can be n/256
// intervals old, and a new lock shows up in it as late. A queue whose read is denied or refused is counted, with the
// reason, and hides no other. Entries that the login of the Session may not read are counted too.
//
// Queues that are read at different moments can together show a deadlock that never existed.
// So the page shows one only after each queue that shows it was read again. Entries of other
// programs have no times, nor has a hold in its first second, or for as long as the service refuses
// to record the time: the page counts from when it first saw them.
//
// The reader keeps in memory what it last saw, and for each lock the last 64 holds that
// it saw. What came and went between two reads, or while no page was open, it does not
// know; a hold that ended in such a time counts up to when it was seen last. Of a hold that
// has ended it knows only that its entry is gone: one that was lost or evicted looks like one
// that was released.
//
// # States
//
//	         first page                     an answer
//	idle ------------------> reading ------------------> shown <---+
//	 ^                          |                         |        | an answer
//	 |  last page               | no answer, or an error  |        |
//	 +--------------------------+-------> old <-----------+--------+
//
// In "old" the page keeps what it last saw, dimmed, and shows since when the service does
// not answer and why. It reads again every Options.Interval, so it comes back by itself.
// When the page's own server is gone, the browser connects again every two seconds.
//
// # Goroutines
//
// The first page that opens starts the reader, and the last one that leaves ends it and
// waits for its end. A page leaves when its request ends: the browser closes it, the
// server's base context ends, a write takes longer than ten seconds, or the Session is
// closed. So the handler owns no goroutine that outlives its requests, and needs no Close.
// http.Server.Shutdown waits for open pages: cancel the base context of the server, or
// close the Session, before you call it.
//
// A page has no buffer. The reader keeps the last changes of all pages together, and a
// page that is too slow to read them loads the whole state again.
//
// # What is left on each exit
//
// Nothing at the service, with one exception: a yield request that was sent from the
// page stands until it is withdrawn there, or until the service session of the handler's
// Session ends, at the latest with Session.Close.
//
// # Security
//
// The page reads only, unless Options.AllowEvict is set. Every client that can open the page sees
// names, hosts, labels and values; the package has no login of its own, so mount it behind
// yours. Actions are POST requests that carry a token which only the page can read, and
// net/http's CrossOriginProtection refuses those of other origins. With Options.Token only a
// page that was opened with the token in its address has it. Everything that an
// entry claims is inserted as text, and a Content-Security-Policy without inline code
// would stop it otherwise. Set Options.Hosts where no proxy in front checks the Host
// header: otherwise a page of another site can reach a server on your loopback address by
// a name that it resolves to it. With AllowEvict and no Hosts only addresses and localhost
// are admitted.
//
// A client may take ten seconds to send a request. At most 1000 pages are open, 250 of one
// address; all pages behind a proxy have one. A client that asks for 256 other locks each
// second keeps the lock that a page shows from being read earlier than the rest.
package ui

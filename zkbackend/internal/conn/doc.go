// Package conn keeps one ZooKeeper session connected and alive, and sends its requests in a known
// order.
//
// The backend above it knows paths, transactions and watches. The package alone knows sockets, TLS,
// handshakes, logins, heartbeats, reconnects and zk.Conn, the client of github.com/go-zookeeper/zk,
// which encodes requests and decodes answers.
//
// # Order
//
// Requests leave in the order of the calls, on one connection at a time. If a connection is lost, the
// requests that may be sent again are sent on the next one, in the same order. Answers and the events of
// watches are delivered in the order in which the server sent them, one at a time:
//
//   - When the server sends an event before an answer, the callbacks for the event have returned before
//     the answer is delivered.
//   - The answer that arms a watch is delivered before the event of that watch.
//   - A watch that is requested before a Read is armed before the server carries out the Read.
//
// # Outcomes
//
// A nil error means that the request was carried out. An *UnknownError means that the outcome is unknown:
// the request was sent, and the connection was lost or the context ended before the answer came. Any other
// error means that it was not carried out. A request that was not sent when a connection is lost is sent
// on the next one.
//
// A server's error is in the chain as the library's value (zk.ErrNoNode), or as one of this package's
// where the library has none (ErrQuota). Any other error wraps one of three:
//
//   - driver.ErrSessionOver: the session expired, or Abandon or Close was called.
//   - driver.ErrUnavailable: the context ended. The text has its cause; the chain has context.Canceled or
//     context.DeadlineExceeded, and why there is no connection.
//   - driver.ErrRefused: the request or its answer is longer than what is allowed.
//
// All methods with a context return within a few milliseconds of its end. If it does not end, they return
// when the session does.
//
// # Connections
//
// Each connection begins with a Sync, which the server answers when it has seen all that was committed
// before. So no read is older than an event that was delivered before it, even if the session has moved to a
// server that was behind. The leader itself answers a Sync at once: its reads can be older than such an event, by
// the time that it takes to carry out a commit, but not older than an answer. Servers from 3.9 on show the
// transaction of each event, so there no read is older than an event.
//
// A request of an old connection can be carried out after requests of a newer one. ZooKeeper closes the old
// connection when the newer one comes. But a server with Netty, which TLS needs, goes on with the requests
// that it has read. Servers refuse them only while the session is at another server, and the session may
// come back. So as long as the session lives, a Sync and a read do not prove that a node will not appear. If
// a caller has not found the node of an unknown request, it must read again later.
package conn

// Package conn keeps one ZooKeeper session connected and alive, and sends its requests in a known
// order.
//
// It is the wall between the backend and ZooKeeper's wire. Above it are paths, transactions and
// watches. Below it are sockets, TLS, handshakes, logins, heartbeats, reconnects and the client library,
// github.com/go-zookeeper/zk, which encodes requests and decodes answers. Nothing else in the backend
// uses a zk.Conn.
//
// # Order
//
// Requests leave in the order in which they were asked for, on one connection at a time. If a
// connection is lost, those that may be sent again are sent on the next one in the same order. Answers
// and the events of watches are delivered in the order in which they came, one at a time:
//
//   - The callback of a watch has returned before the answer to any request is delivered that the server
//     answered later.
//   - The answer that arms a watch is delivered before the event of that watch.
//   - A watch that is asked for before a Read is armed before the server carries out the Read.
//
// # Outcomes
//
// A request was carried out (its error is nil), or was not (any other error), or the outcome is unknown
// (the error is an *UnknownError): it was sent, and the connection was lost or the context ended before
// the answer came. A request that was not sent when a connection is lost is sent on the next one.
//
// An error of the server is in the chain as the library's value (zk.ErrNoNode), or as one of this
// package's where the library has none (ErrQuota). Other errors wrap driver.ErrSessionOver: the session
// expired, or Abandon or Close was called; driver.ErrUnavailable: the context ended, and its cause and
// why there is no connection are in the chain; or driver.ErrRefused: the request or its answer is longer
// than what is allowed.
//
// All methods with a context return within a few milliseconds of its end. Without an end they last as
// long as the session.
//
// # Connections
//
// Each connection begins with a Sync, which waits until the server has seen all that was committed before. So
// no read is older than an event that was delivered before, although the session may
// have moved to a server that is behind.
//
// A request of an old connection can be carried out after requests of a newer one. ZooKeeper closes the
// old connection when the newer one comes, but a server with Netty, which TLS needs, goes on with what it
// has read. It is refused only while the session is at another server, and the session may come back. So a
// Sync and a listing never prove that an entry will not appear as long as the session lives: a caller who
// has not found what an unknown request was to make looks again later.
package conn

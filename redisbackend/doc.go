// Package redisbackend keeps locks in Redis 6.2 or newer, or Valkey: a server alone, a master with replicas,
// by hand or by Sentinel, or a cluster.
//
//	s, err := redisbackend.Dial(ctx, "redis://localhost", nil)
//
// "fairlock init redis://localhost", or Init, makes the root once; without it the first program waits for the
// greatest TTL, because it cannot know whether the data of the root was lost. "fairlock doctor", or Examine,
// shows what is wrong with a server, and what it keeps of the promises of a lock.
//
// # How it works
//
// Each request of a lock is an entry in a queue; its place in the queue is a number of a clock that never goes
// back, and the fencing token. A request is one script, so all of it is done or nothing. An entry knows which
// sessions wait for its end, and the script that ends it notifies these, and no others. Redis ends nothing by itself that this package keeps, so each process renews
// its session a few times in each TTL, and sees in the answer which others have not: one that was not renewed
// for a TTL, on the clock of the one that observes, is ended with its entries. Redis' own expiry takes no part,
// and neither does any clock of a server but for tokens.
//
// # Failover, restarts, lost data
//
// Redis answers before its data is safe. So each restart, each promotion of a replica and each loss of the data
// is a new life: every session of before is over, and nothing is granted for the greatest TTL, until all holds
// from before have ended. The programs count that while they open a session, together: what one has counted is
// kept for the next.
//
// A renewal counts only when a majority of the nodes has it (WAIT), see Options.Nodes. So a master that was
// replaced keeps no hold. One rule is for operators, and Redis cannot hold it: before a node returns to a former
// master, that master gets a new life (REPLICAOF the new one, or a restart). See docs/guarantees.md, "What each
// store keeps".
//
// # Connections
//
// A Session has three, whatever the number of locks and waiters: one for calls, one for notices, and one for
// renewals, which wait for nothing else. They go to the server that takes writes of the root, which is found
// anew when it changes.
//
// # Memory
//
// A waiter takes about 300 bytes in Redis. Use the policy noeviction, or one for volatile keys only: others may
// evict the entry of a holder, and are refused. Where memory is short, Redis 7 and Valkey still renew sessions
// and release locks; only new requests wait.
package redisbackend

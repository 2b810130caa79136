// Package redisfence checks fencing tokens at keys of Redis or Valkey. It knows no client: it
// makes the text, keys and arguments of a Lua script, which every client can run with EVAL or
// EVALSHA, and reads the error that comes back. A script of yours stays as it is:
//
//	get := redisfence.Script(`return redis.call('GET', KEYS[1])`)
//	…
//	reply := client.Do(ctx, client.B().Eval().Script(get). // rueidis
//		Numkeys(2).Key(redisfence.Keys("account:ada")...).Arg(redisfence.Args(h.Token(), h.Mode())...).Build())
//	err = redisfence.Err(reply.Error())
//
// With go-redis, redis.NewScript(get).Run(ctx, client, redisfence.Keys("account:ada"),
// redisfence.Args(h.Token(), h.Mode())) does the same: it takes the arguments as one slice.
//
// The check and the script are one step at the server, and need one round trip. The rules are
// those of package fence: the first access of each hold shows its token, even if it only reads.
// Run a read as a script too. The script compares tokens as texts of digits, because a number
// of Lua has 53 bits, and tokens have 64.
//
// # The marks
//
// Two fields of a hash have the marks: that hash is at Mark(KEY), a key of its own in the slot of
// the data, so a cluster takes both in one script. If the data is a hash itself, its own
// key can have them too: give that key twice instead of Keys. Then nothing can delete, expire
// or evict the data without its marks, or the other way.
//
// Marks must live as long as the data. Do not set a time to live on them, and do not let them be
// evicted: with a maxmemory-policy of the kind allkeys-…, a mark that was evicted lets stale
// holds in. DEL, UNLINK and RENAME of the data do not move the mark with it.
//
// # What Redis loses
//
// The marks are as durable as the data, and consistent with it, because one script writes both:
// a replica, a snapshot and the log get them together or not at all. So after a failover to a
// replica that lags, or a restart without the newest writes, data and marks are those of one
// earlier moment. What was acknowledged since then is lost, with or without a lock, and so is the
// record that a newer hold had read: an older one that was stopped can write once more, until
// the newer one comes back. If that matters, wait for the replicas after the first access
// (WAIT) and keep a log (appendonly with appendfsync always); Redis does not promise it even
// then. Data that must not lose an update belongs into a store that keeps what it has
// acknowledged: see package sqlfence.
package redisfence

package layout

import (
	"strings"
	"time"
)

// LockTimeout is how long a statement waits for a lock, which another transaction holds for as
// long as a commit takes. An attempt that waits longer is rolled back and repeated: the
// connection serves other requests meanwhile.
const LockTimeout = time.Second

// Texts are the statements of one session. Each compares the life of the server and of the store
// with that of the session: after a promotion they find nothing and change nothing.
//
// The parameters are listed in a comment above each text, with their types in PostgreSQL.
type Texts struct {
	// Fence locks the fence of the session and then its queues, and returns how many of the
	// locks it took: 0 if the session is over.
	// ($1 session bigint, $2 keys bigint[], in ascending order)
	Fence string

	// FenceOne is Fence with one queue. ($1 session bigint, $2 key bigint)
	FenceOne string

	// Lock locks queues for a caller without a session.
	// ($1 keys bigint[], in ascending order)
	Lock string

	// LockOne locks one queue, before LeaveOne and LeaveAhead. ($1 key bigint)
	LockOne string

	JoinOne, Ahead, TryOne       string // see join.go
	Void, Partial, JoinMany, Own string
	Records                      string

	// LeaveOne is for an entry with none of the session's own behind it, LeaveAhead for any one.
	LeaveOne, LeaveAhead, LeaveMany string // see leave.go

	Update             string // see update.go
	Settle, SettleVoid string

	Read, ReadDetail, Count string // see read.go
	Names                   string

	Member, Open, Renew                     string // see session.go
	EndSession, EndMember, EndRest, EndKept string

	States, Watcher, Observe, Sweep string // see watch.go
	SweepWatchers, EndWatcher       string
	SweepDone                       string
	Guard                           string
}

// NewTexts returns the statements of a session of this life.
func (l Layout) NewTexts(life Life, secret string) Texts {
	r := strings.NewReplacer(
		"$alive", life.is(l.Table("meta")),
		"$isolated", `current_setting('transaction_isolation') = 'read committed'`,
		"$durable", durable,
		"$patient", `set_config('lock_timeout', '`+milliseconds(LockTimeout)+`', true) is not null`,
		"$nextplace", `nextval(`+l.sequence()+`)`,
		"$channel(", `'fl_' || left(encode(sha256(convert_to(`,
		"$)", ` || `+literal(secret)+`, 'UTF8')), 'hex'), 32)`,
		"$meta", l.Table("meta"), "$session", l.Table("session"), "$member", l.Table("member"),
		"$entry", l.Table("entry"), "$record", l.Table("record"), "$void", l.Table("void"),
		"$done", l.Table("done"), "$watcher", l.Table("watcher"),
	)
	text := func(s string) string { return r.Replace(strings.TrimSpace(s)) }
	return Texts{
		Fence: text(fence), FenceOne: text(fenceOne), Lock: text(lock), LockOne: text(lockOne),
		JoinOne: text(joinOne), Ahead: text(ahead), TryOne: text(tryOne),
		Void: text(void), Partial: text(partial), JoinMany: text(joinMany()), Own: text(own), Records: text(records),
		LeaveOne: text(leaveOne(anyBehind)), LeaveAhead: text(leaveOne(othersBehind)), LeaveMany: text(leaveMany()),
		Update: text(update()), Settle: text(settle), SettleVoid: text(settleVoid),
		Read: text(strings.ReplaceAll(read, "$columns", "null::bytea, null::bytea")), ReadDetail: text(strings.ReplaceAll(read, "$columns", "e.data, e.detail")),
		Count: text(count), Names: text(names),
		Member: text(memberRow), Open: text(openSession), Renew: text(renew),
		EndSession: text(endSession), EndMember: text(endMember), EndRest: text(endRest), EndKept: text(endKept),
		States: text(states), Watcher: text(watcher), Observe: text(observe), Sweep: text(sweep),
		SweepWatchers: text(sweepWatchers), EndWatcher: text(endWatcher), SweepDone: text(sweepDone), Guard: text(guard),
	}
}

// The filter is applied before the row is locked, and set_config lasts to the end of the
// transaction: so the settings cost no statement of their own.
const fence = `
with member as (select id from $member where id = $1 and $durable and $patient for key share)
select count(pg_advisory_xact_lock(k)) from unnest($2::bigint[]) as k where exists (select from member)`

// fenceOne has the fewest steps that lock the fence first: a row of the inner query is locked
// before the aggregate sees it.
const fenceOne = `
select count(pg_advisory_xact_lock($2::bigint)) from (select id from $member where id = $1 and $durable and $patient for key share) member`

const lock = `
select count(pg_advisory_xact_lock(k)) from unnest($1::bigint[]) as k where $durable and $patient`

// lockOne is for releases, which the disk of the server must have before another client learns of
// them: otherwise a crash would bring the entry back, and a transaction with Guard could commit in the
// name of a hold that was released. Standbys need not have them: where one is promoted, the data has
// another life, in which no entry of before counts. The settings are made before the lock is waited for.
const lockOne = `
select case when set_config('synchronous_commit', 'local', true) is not null and $patient then pg_advisory_xact_lock($1::bigint) end is null`

package layout

import (
	"strconv"
	"strings"
	"time"
)

// DefaultMaxTTL is the greatest TTL that a store admits unless the operator chose another one.
// It is also the length of a quarantine.
const DefaultMaxTTL = time.Minute

// DDL returns the statements that make the tables, each of which can be run again. $max is
// the greatest TTL in milliseconds.
//
// The sequence begins at the clock, in microseconds, and not at 1: a store that was dropped and
// made again goes on with higher tokens, unless the clock went back meanwhile.
func (l Layout) DDL(maxTTL time.Duration) []string {
	r := strings.NewReplacer("$schema", strings.TrimSuffix(l.Table("x"), `."x"`), "$max", milliseconds(maxTTL))
	var all []string
	for s := range strings.SplitSeq(ddl, ";\n") {
		s = strings.TrimSpace(s)
		if s != "" {
			all = append(all, r.Replace(s))
		}
	}
	return all
}

func milliseconds(d time.Duration) string { return itoa(d.Milliseconds()) }

// ddl is commented for the operator who reads it before it is run.
const ddl = `
create schema if not exists $schema;

-- One row: the version of the tables, the life of the data (the server's system identifier and
-- timeline when they were last declared whole) and the place that was the last one then (0 in the
-- first life), a claim while a new life is in quarantine and for how long programs have counted since,
-- the greatest TTL of a session, and what the names of the notification channels are made with.
create table if not exists $schema.meta (
	one        boolean primary key default true check (one),
	layout     integer not null,
	life       text not null,
	since      bigint not null default 0,
	claim      text,
	counted_ms bigint not null default 0,
	max_ttl_ms bigint not null check (max_ttl_ms >= 2000),
	secret     text not null default gen_random_uuid()::text);

-- One row for each session. Only its renewals write it, and the client that ends it deletes it.
create table if not exists $schema.session (
	id      bigint primary key,
	root    text not null,
	version bigint not null default 1,
	ttl_ms  bigint not null,
	renewed timestamptz not null default clock_timestamp()) with (fillfactor = 50);

-- The fence of a session: a transaction that makes an entry locks it. It is not the row that
-- renewals write, so that nothing which waits for a queue delays a renewal.
create table if not exists $schema.member (
	id bigint primary key);

-- The entries of all queues. The order of the places is the order of the queue, and a place is
-- the fencing token. The columns wrote and changed number the writes of an entry by its owner, all
-- of them and those of its data.
create table if not exists $schema.entry (
	queue   text collate "C" not null,
	place   bigint not null,
	session bigint not null,
	call    bigint not null,
	mode    smallint not null,
	weight  bigint not null,
	marks   smallint not null default 0,
	valued  boolean not null,
	data    bytea,
	detail  bytea,
	wrote   bigint not null default 0,
	changed bigint not null default 0,
	primary key (queue, place));
create index if not exists entry_session on $schema.entry (session);

-- Small values beside a queue: limits, ledgers, slots. Those with a session end with it.
create table if not exists $schema.record (
	queue   text collate "C" not null,
	name    text collate "C" not null,
	value   bytea not null,
	version bigint not null,
	session bigint,
	primary key (queue, name));
create index if not exists record_session on $schema.record (session) where session is not null;

-- Attempts at a join that were given up: one that arrives late makes no entry.
create table if not exists $schema.void (
	session bigint not null,
	call    bigint not null,
	primary key (session, call));

-- Changes of records that were carried out: one that is sent again is not carried out twice.
create table if not exists $schema.done (
	session bigint not null,
	call    bigint not null,
	at      timestamptz not null default now(),
	primary key (session, call));

-- Queues that are watched by a program with no entry behind: changes are notified also if
-- no client waits, for as long as the row is there. Programs renew the time, and remove a row
-- that no program has renewed for a minute.
create table if not exists $schema.watcher (
	queue text collate "C" primary key,
	until timestamptz not null);

-- Places, which are the fencing tokens of all queues. A program needs USAGE on it.
create sequence if not exists $schema.place as bigint;
`

// Fresh returns the statement that declares tables whole that DDL has just made, and starts the
// sequence. It must run in a transaction that has seen that there were none.
func (l Layout) Fresh(maxTTL time.Duration) string {
	return `with made as (insert into ` + l.Table("meta") + ` (layout, life, max_ttl_ms)
	values (` + itoa(Version) + `, ` + system + ` || ':' || ` + timeline + `, ` + milliseconds(maxTTL) + `) returning one)
select setval(` + l.sequence() + `, ` + now + `) from made`
}

// Complete returns the statement that adds to the tables of an earlier program what this one needs.
func (l Layout) Complete() string {
	return `alter table ` + l.Table("meta") + ` add column if not exists since bigint not null default 0`
}

// Raise returns the statement that raises the greatest TTL of a store that is there.
func (l Layout) Raise(maxTTL time.Duration) string {
	ms := milliseconds(maxTTL)
	return `update ` + l.Table("meta") + ` set max_ttl_ms = ` + ms + ` where max_ttl_ms < ` + ms
}

// sequence returns the sequence of places as an argument of nextval.
func (l Layout) sequence() string { return literal(l.Table("place")) + `::regclass` }

// literal returns s as a string constant of SQL.
func literal(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }

func itoa[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// now is the server's clock in microseconds.
const now = `(extract(epoch from clock_timestamp()) * 1000000)::bigint`

// Package layout is how queues are stored in PostgreSQL: the tables, the names in them, the
// channels of notices, and the statements. It sends nothing.
//
// Every change of a queue is one batch of statements in one transaction. The first statement
// takes the queue's advisory lock, so the changes of a queue come one after another, in the
// order of their commits. Each later statement has a snapshot that begins after the lock was
// taken (READ COMMITTED), so it sees every change before it. A place is drawn from a sequence
// under that lock; so places rise in the order in which entries become visible. A number that
// is drawn without it, as by a bigserial, is no order: two transactions can commit in the other
// one, and then both see themselves first.
//
// The queue itself has no row: nothing has to be made before a queue is used, nothing stays
// when it is empty, and an old snapshot keeps no row versions of it.
package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/session/driver"
)

// Version is the version of the tables. A program refuses tables of another one.
const Version = 1

// Layout is one schema and one root. It never changes.
type Layout struct {
	// Schema is the schema of the tables, as the user wrote it.
	Schema string

	// Root begins the stored name of every queue.
	Root string
}

// separator ends the root in the stored name of a queue. No root contains it.
const separator = "\x01"

// Queue returns the stored name of a queue. PostgreSQL's text holds no NUL, so a queue of yield
// requests has a letter of its own.
func (l Layout) Queue(name string) string {
	of, asks := driver.AskedQueue(name)
	if asks {
		return l.Root + separator + "a" + of
	}
	return l.Names() + name
}

// Names returns what the stored names of all queues begin with, but for those of yield requests.
func (l Layout) Names() string { return l.Root + separator + "q" }

// Table returns the quoted name of a table or sequence.
func (l Layout) Table(name string) string { return pgx.Identifier{l.Schema, name}.Sanitize() }

// Lock returns the key of the advisory lock of a stored queue. Two queues may have one key:
// then their changes wait for each other, and nothing else happens.
func (l Layout) Lock(queue string) int64 {
	sum := sha256.Sum256([]byte(l.Schema + "\x00" + queue))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits are a key
}

// Channel returns the channel of the notices about a stored queue. It cannot be guessed by a
// login that cannot read the secret, so no other login can forge a notice. The
// statements have the same expression in SQL.
func Channel(secret, queue string) string {
	sum := sha256.Sum256([]byte(queue + secret))
	return "fl_" + hex.EncodeToString(sum[:16])
}

// EntryChannel returns the channel of the notices about one entry of a queue with a Channel.
func EntryChannel(channel string, place int64) string {
	return channel + "_" + strconv.FormatInt(place, 10)
}

// SessionID returns the ID of a session as the tools show it.
func SessionID(id int64) string { return fmt.Sprintf("%016x", uint64(id)) } //nolint:gosec // its bits

// ParseSessionID is the inverse of SessionID.
func ParseSessionID(s string) (int64, bool) {
	id, err := strconv.ParseUint(s, 16, 64)
	return int64(id), err == nil && len(s) == 16 //nolint:gosec // its bits
}

// Key returns the key of an entry.
func Key(session, place int64) string {
	return SessionID(session) + "." + strconv.FormatInt(place, 10)
}

// SessionOf returns the session of an entry, or false for a Ref that no entry here has.
func SessionOf(ref driver.Ref) (int64, bool) {
	session, place, ok := strings.Cut(ref.Key, ".")
	if !ok || place != strconv.FormatInt(ref.Place, 10) {
		return 0, false
	}
	return ParseSessionID(session)
}

// Life is the incarnation of the data: a server that has a copy of it has another one, as soon
// as that server was promoted.
type Life struct {
	// System is the system identifier of the server, which initdb has drawn. All standbys of a
	// primary have the same one.
	System string

	// Timeline is the timeline that the server writes, in hexadecimal. A promotion or a
	// point-in-time recovery begins a new one.
	Timeline string

	// Started is when the server process started, in microseconds since 1970. A statement on
	// the same process needs no second look at the system identifier, which is in a file.
	Started int64
}

// String returns what the row in table meta has for this life.
func (l Life) String() string { return l.System + ":" + l.Timeline }

// The parts of a Life in SQL. The timeline is that of the WAL being written:
// pg_control_checkpoint shows the one before until the first checkpoint after a promotion. On a
// standby the expression is an error, so a standby has no life.
const (
	timeline = `substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)`
	started  = `(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint`
	system   = `(pg_control_system()).system_identifier::text` // a sub-select would be one more step to set up
)

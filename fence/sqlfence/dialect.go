package sqlfence

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is the SQL of a database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "PostgreSQL" // 10 or later
	MariaDB    Dialect = "MariaDB"    // 10.5 or later
	MySQL      Dialect = "MySQL"      // 5.7 or later, and MariaDB before 10.5
	SQLite     Dialect = "SQLite"     // 3.35 or later
)

func (d Dialect) known() error {
	switch d {
	case PostgreSQL, MariaDB, MySQL, SQLite:
		return nil
	}
	return fmt.Errorf("sqlfence: unknown dialect %q", string(d))
}

// The columns of tokens have 64 bits, and names are compared byte by byte: a collation that ignores
// case or spaces would take two locks for one.
const (
	postgresSchema = `CREATE TABLE IF NOT EXISTS fairlock_marks (
	name            text COLLATE "C" NOT NULL,
	part            text COLLATE "C" NOT NULL,
	exclusive_token bigint NOT NULL,
	shared_token    bigint NOT NULL,
	PRIMARY KEY (name, part)
)`
	mysqlSchema = `CREATE TABLE IF NOT EXISTS fairlock_marks (
	name            varbinary(512) NOT NULL,
	part            varbinary(64) NOT NULL,
	exclusive_token bigint NOT NULL,
	shared_token    bigint NOT NULL,
	PRIMARY KEY (name, part)
) ENGINE=InnoDB`
	sqliteSchema = `CREATE TABLE IF NOT EXISTS fairlock_marks (
	name            text NOT NULL,
	part            text NOT NULL,
	exclusive_token integer NOT NULL,
	shared_token    integer NOT NULL,
	PRIMARY KEY (name, part)
) WITHOUT ROWID`
)

// Schema returns the statement that makes the table of the marks, which Touch uses. Run it with
// the other migrations of the database. It changes nothing if the table is there. It returns ""
// for an unknown dialect.
//
// The table has a row for each lock that was touched, for as long as the data lives: to delete a
// row lets the holders of before in. The login needs SELECT, INSERT and UPDATE.
func Schema(d Dialect) string {
	switch d {
	case PostgreSQL:
		return postgresSchema
	case MariaDB, MySQL:
		return mysqlSchema
	case SQLite:
		return sqliteSchema
	}
	return ""
}

// Each statement updates every row that is there, also if the access is refused, so that the row
// is locked and its marks are returned. A refused access does not change the marks. A new row has
// a token in one column and 0 in the other, so a token of 0 means that the access is of the other
// mode: it is lower than a mark or changes nothing.
const (
	insert = `INSERT INTO fairlock_marks AS m (name, part, exclusive_token, shared_token) VALUES %s
ON CONFLICT (name, part) DO UPDATE SET
	exclusive_token = CASE WHEN excluded.exclusive_token >= m.exclusive_token AND excluded.exclusive_token >= m.shared_token
		THEN excluded.exclusive_token ELSE m.exclusive_token END,
	shared_token = CASE WHEN excluded.shared_token >= m.exclusive_token AND excluded.shared_token >= m.shared_token
		THEN excluded.shared_token ELSE m.shared_token END
RETURNING name, part, exclusive_token, shared_token`

	// MySQL assigns from left to right, and the second assignment sees the result of the first.
	// Only one of the two changes a mark, so that makes no difference.
	insertMySQL = `INSERT INTO fairlock_marks (name, part, exclusive_token, shared_token) VALUES %s
ON DUPLICATE KEY UPDATE
	exclusive_token = IF(VALUES(exclusive_token) >= exclusive_token AND VALUES(exclusive_token) >= shared_token,
		VALUES(exclusive_token), exclusive_token),
	shared_token = IF(VALUES(shared_token) >= exclusive_token AND VALUES(shared_token) >= shared_token,
		VALUES(shared_token), shared_token)`

	returning = "\nRETURNING name, part, exclusive_token, shared_token"

	// A plain SELECT would read the snapshot of the transaction, which may be older than the row.
	selectMySQL = `SELECT name, part, exclusive_token, shared_token FROM fairlock_marks WHERE (name, part) IN (%s) FOR UPDATE`
)

// insertion returns the statement for n accesses.
func (d Dialect) insertion(n int) string {
	switch d {
	case MariaDB:
		return fmt.Sprintf(insertMySQL, d.tuples(n, "", "", "", "")) + returning
	case MySQL:
		return fmt.Sprintf(insertMySQL, d.tuples(n, "", "", "", ""))
	case PostgreSQL:
		return fmt.Sprintf(insert, d.tuples(n, "::text", "::text", "::bigint", "::bigint"))
	default:
		return fmt.Sprintf(insert, d.tuples(n, "", "", "", ""))
	}
}

// tuples returns n tuples of parameters with these types.
func (d Dialect) tuples(n int, types ...string) string {
	var all []string
	i := 0
	for range n {
		var one []string
		for _, typ := range types {
			i++
			one = append(one, d.parameter(i)+typ)
		}
		all = append(all, "("+strings.Join(one, ", ")+")")
	}
	return strings.Join(all, ", ")
}

// parameter returns the parameter with a number from 1 on.
func (d Dialect) parameter(i int) string {
	if d == PostgreSQL {
		return "$" + strconv.Itoa(i)
	}
	return "?"
}

// text returns a name as an argument: MySQL compares a text with bytes by the rules of a collation.
func (d Dialect) text(s string) any {
	if d == MariaDB || d == MySQL {
		return []byte(s)
	}
	return s
}

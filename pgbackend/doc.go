// Package pgbackend keeps locks in PostgreSQL.
package pgbackend

//go:build nopostgres

package main

import "github.com/fairlock/fairlock/bench/stand"

// postgres returns nothing: the commit of fairlock that this program is built with has no backend
// for PostgreSQL.
func postgres() []stand.Service { return nil }

//go:build !nopostgres

package main

import (
	"github.com/fairlock/fairlock/bench/pgstand"
	"github.com/fairlock/fairlock/bench/stand"
)

// postgres returns the stand on PostgreSQL.
func postgres() []stand.Service { return []stand.Service{pgstand.Service()} }

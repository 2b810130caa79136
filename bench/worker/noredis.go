//go:build noredis

package main

import "github.com/fairlock/fairlock/bench/stand"

// redis returns nothing: the commit of fairlock that this program is built with has no backend
// for Redis.
func redis() []stand.Service { return nil }

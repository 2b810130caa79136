//go:build !noredis

package main

import (
	"github.com/fairlock/fairlock/bench/redisstand"
	"github.com/fairlock/fairlock/bench/stand"
)

// redis returns the stand on Redis.
func redis() []stand.Service { return []stand.Service{redisstand.Service()} }

package redis

import "testing"

func newSetup(t *testing.T) setup { return setup{addr: "127.0.0.1:7777"} }

package faircertmagic_test

import "github.com/caddyserver/certmagic"

// The code of docs/migrating.md before the change.
var _ = func(shared string) certmagic.Storage {
	storage := &certmagic.FileStorage{Path: shared}
	return storage
}

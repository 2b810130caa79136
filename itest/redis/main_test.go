package redis

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	_ = calm.Close()
	os.Exit(code)
}

package etcd

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/itest/worker"
)

func TestMain(m *testing.M) { worker.Main(m, openWorker, tidy) }

// tidy closes the servers that the tests share. Between embedded members that are
// not behind proxies etcd keeps some connections for up to 5 s.
func tidy() error {
	err := calm.Close()
	for end := time.Now().Add(10 * time.Second); goleak.Find() != nil && time.Now().Before(end); {
	}
	return err
}

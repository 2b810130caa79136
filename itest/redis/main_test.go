package redis

import (
	"testing"

	"github.com/fairlock/fairlock/itest/worker"
)

func TestMain(m *testing.M) { worker.Main(m, openWorker, calm.Close) }

package zookeeper

import (
	"testing"

	"github.com/fairlock/fairlock/itest/child"
)

func TestMain(m *testing.M) { child.Main(m, openChild, calm.Close) }

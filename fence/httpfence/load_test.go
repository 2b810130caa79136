package httpfence_test

import (
	"net/http/httptest"
	"testing"

	"github.com/fairlock/fairlock/fence/filefence"
	"github.com/fairlock/fairlock/internal/fencetest"
)

func TestFencedWritesAloneLoseUpdatesAndFencedFirstTouchesDoNot(t *testing.T) {
	server := httptest.NewServer(newServer(&store{}, filefence.Folder(fencetest.Dir(t))))
	defer server.Close()

	fencetest.TestOrders(t, open, server.URL)
}

func TestALoadWithStopsAndKillsLosesNoUpdate(t *testing.T) {
	server := httptest.NewServer(newServer(&store{}, filefence.Folder(fencetest.Dir(t))))
	defer server.Close()

	fencetest.TestLoad(t, open, server.URL)
}

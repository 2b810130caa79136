package etcdtest

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServerNameIsReadFromTheClientHello(t *testing.T) {
	client, server := net.Pipe()
	go func() {
		defer client.Close()
		_ = tls.Client(client, &tls.Config{ServerName: "m1"}).Handshake()
	}()
	hello := make([]byte, 16<<10)
	n, err := server.Read(hello)
	require.NoError(t, err)
	require.NoError(t, server.Close())
	hello = hello[:n]
	if _, ok := serverName(hello); !ok {
		require.Fail(t, "the whole handshake came in one write")
	}

	label, ok := serverName(hello)
	assert.True(t, ok)
	assert.Equal(t, "m1", label)
	_, ok = serverName(hello[:len(hello)/2])
	assert.False(t, ok, "half a handshake")
	label, ok = serverName([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	assert.True(t, ok)
	assert.Empty(t, label)
}

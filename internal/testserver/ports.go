package testserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"
)

// Ports are drawn below the range from which systems assign ports to outgoing
// connections: a restarted server must find its own port free.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// FreePorts returns n addresses of the loopback interface on which no process
// listened a moment ago. Another process may bind one before the caller does: see
// PortTaken.
func FreePorts(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range 100 * n {
		if len(addrs) == n {
			return addrs, nil
		}
		addr := fmt.Sprintf("127.0.0.1:%d", lowestPort+rand.IntN(highestPort-lowestPort))
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			continue
		}
		// All are held until n are found, so none is drawn twice.
		defer func() { _ = l.Close() }()
		addrs = append(addrs, addr)
	}
	return nil, errors.New("testserver: no free ports")
}

// PortTaken reports whether a server could not start because another process had
// taken its port. The errors of a server process are only text, so PortTaken also
// searches the text.
func PortTaken(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) ||
		err != nil && strings.Contains(strings.ToLower(err.Error()), "address already in use")
}

// Refused reports whether no server listens at an address.
func Refused(addr string) bool {
	dialer := net.Dialer{Timeout: time.Second}
	nc, err := dialer.DialContext(context.Background(), "tcp", addr)
	if err == nil {
		_ = nc.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

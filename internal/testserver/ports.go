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

// Ports returns n addresses of the loopback interface on which no process listens. No other Dir
// gets one of them before Remove, also in another process: a server may bind a port late, when
// it leads for example, and binds it again when it restarts. A process without a Dir may take one
// all the same: see PortTaken.
//
// A port is reserved by the UDP socket with the same number, which no server here uses. It goes
// with this process.
func (d *Dir) Ports(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range 100 * n {
		if len(addrs) == n {
			return addrs, nil
		}
		addr := fmt.Sprintf("127.0.0.1:%d", lowestPort+rand.IntN(highestPort-lowestPort))
		reserved, err := new(net.ListenConfig).ListenPacket(ctx, "udp", addr)
		if err != nil {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			_ = reserved.Close()
			continue
		}
		_ = l.Close()
		d.ports = append(d.ports, reserved)
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

package zktest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Command sends one of ZooKeeper's four letter words, such as "srvr", "cons", "wchs" or
// "mntr", past the proxy, and returns the answer. All words are enabled. It fails when
// the member is not there or ctx ends first.
func (m *Member) Command(ctx context.Context, word string) (string, error) {
	answer, err := m.ask(ctx, word)
	if err != nil {
		return "", fmt.Errorf("zktest: command %q to %q: %w", word, m.Name(), err)
	}
	return answer, nil
}

func (m *Member) ask(ctx context.Context, word string) (string, error) {
	nc, err := m.ensemble.dial(ctx, "tcp", m.Direct())
	if err != nil {
		return "", err
	}
	defer func() { _ = nc.Close() }()
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(nc, word); err != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	answer, err := io.ReadAll(nc)
	if err != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	return string(answer), nil
}

// dial connects, with TLS if the servers require it.
func (e *Ensemble) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if e.tls != nil {
		return (&tls.Dialer{Config: e.tls}).DialContext(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// status is what a serving member reports about itself.
type status struct {
	mode string // "standalone", "leader", "follower"
	zxid int64  // the last transaction that it knows
}

// status asks the member for its status. It fails when the member does not serve.
func (m *Member) status(ctx context.Context, timeout time.Duration) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := m.Command(ctx, "srvr")
	if err != nil {
		return status{}, err
	}
	s, err := parseStatus(answer)
	if err != nil {
		return status{}, fmt.Errorf("zktest: status of %q: %w", m.Name(), err)
	}
	return s, nil
}

// longer returns the timeout of the next attempt after one failed with err.
func longer(timeout time.Duration, err error) time.Duration {
	if errors.Is(err, context.DeadlineExceeded) {
		timeout += answerWithin / 2
	}
	return timeout
}

func parseStatus(answer string) (status, error) {
	var s status
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Mode":
			s.mode = value
		case "Zxid":
			zxid, err := strconv.ParseUint(value, 0, 64)
			if err != nil {
				return status{}, err
			}
			s.zxid = int64(zxid)
		}
	}
	if s.mode == "" {
		return status{}, errors.New(strings.TrimSpace(answer))
	}
	return s, nil
}

package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/internal/schema"
)

// ZooKeeper asks every server for its status with the command "srvr". Servers answer it
// unless their configuration forbids it.
func ZooKeeper(ctx context.Context, t *connect.Target) []schema.Finding {
	cfg, err := t.TLS()
	if err != nil {
		return []schema.Finding{schema.NewFinding(alarms, schema.Bad, err.Error())}
	}
	var all []schema.Finding
	leaders := 0
	for _, host := range t.Address.Hosts {
		bounded, cancel := context.WithTimeout(ctx, min(serverTimeout, t.Within()))
		answer, err := srvr(bounded, host, cfg)
		cancel()
		f, leads := judgeServer(host, answer, err)
		all = append(all, f)
		if leads {
			leaders++
		}
	}
	if leaders > 1 {
		all = append(all, schema.NewFinding(alarms, schema.Bad, "two of the servers lead: they are not of one ensemble"))
	}
	return all
}

// judgeServer returns the finding from an answer to "srvr", and whether the server leads.
func judgeServer(host, answer string, err error) (f schema.Finding, leads bool) {
	field := func(name string) string {
		for line := range strings.Lines(answer) {
			value, ok := strings.CutPrefix(line, name+": ")
			if ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	mode := field("Mode")
	switch {
	case err != nil:
		f = schema.NewFinding(connection, schema.Bad, host+" does not report its status: "+err.Error())
	case answer == "":
		f = schema.NewFinding(connection, schema.Bad, host+" closes connections without an answer")
		f.Advice = "check how many connections from here it allows (maxClientCnxns), and whether it wants TLS"
	case strings.Contains(answer, "not in the whitelist"):
		f = schema.NewFinding(alarms, schema.Good, host+" does not report its status (4lw.commands.whitelist has no srvr)")
	case strings.Contains(answer, "not currently serving requests"):
		f = schema.NewFinding(alarms, schema.Bad, host+" serves no client: it has no quorum")
		f.Advice = "without a quorum nothing can be locked, and holds are lost"
	case mode == "":
		f = schema.NewFinding(connection, schema.Bad, fmt.Sprintf("%s answers srvr with %.64q, which is not ZooKeeper's", host, answer))
	default:
		version, _, _ := strings.Cut(field("Zookeeper version"), "-")
		f = schema.NewFinding(alarms, schema.Good, fmt.Sprintf("%s is well: ZooKeeper %s, %s, latency min/avg/max %s ms, %s outstanding",
			host, version, mode, field("Latency min/avg/max"), field("Outstanding")))
	}
	return f, mode == "leader" || mode == "standalone"
}

// srvr sends "srvr" to a server and returns the answer.
func srvr(ctx context.Context, host string, cfg *tls.Config) (string, error) {
	var conn net.Conn
	var err error
	if cfg != nil {
		conn, err = (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", host)
	}
	switch {
	case cfg != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return "", errors.New("it closes connections in the TLS handshake: it speaks no TLS there, or allows no more connections from here (maxClientCnxns)")
	case err != nil:
		return "", err
	}
	defer func() { _ = conn.Close() }()
	end, ok := ctx.Deadline()
	if ok {
		err = conn.SetDeadline(end)
		if err != nil {
			return "", err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err = io.WriteString(conn, "srvr")
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(conn, 1<<16))
	if len(b) > 0 || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) {
		err = nil // servers end the connection in different ways
	}
	return string(b), err
}

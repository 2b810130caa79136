package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/session"
)

// onEtcd is one member.
type onEtcd struct {
	cluster *etcdtest.Cluster
	control *clientv3.Client // of the harness, not of a session
}

// Etcd starts one member. The caller closes it. The server is built in the
// current directory, see etcdtest.Options.Processes.
func Etcd(ctx context.Context) (Service, error) {
	c, err := etcdtest.Start(ctx, &etcdtest.Options{Processes: true, QuotaBytes: 8 << 30})
	if err != nil {
		return nil, err
	}
	control, err := c.NewClient(nil)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &onEtcd{c, control}, nil
}

// Name implements Service.
func (*onEtcd) Name() string { return "etcd" }

// Open implements Service.
func (e *onEtcd) Open(ctx context.Context, opts session.Options) (*session.Session, error) {
	return etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: e.cluster.Endpoints()}, &etcdbackend.Options{Session: opts})
}

// Server implements Service.
func (e *onEtcd) Server(ctx context.Context) (s Server, err error) {
	r, err := e.control.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil {
		return s, fmt.Errorf("load: count keys: %w", err)
	}
	fences, err := e.control.Get(ctx, etcdbackend.DefaultRoot+"/%fence/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return s, fmt.Errorf("load: count fences: %w", err)
	}
	s.Keys, s.Fences = r.Count-fences.Count, fences.Count
	leases, err := e.control.Leases(ctx)
	if err != nil {
		return s, fmt.Errorf("load: list leases: %w", err)
	}
	s.Sessions = int64(len(leases.Leases))
	return s, e.scrape(ctx, map[string]*int64{
		"etcd_debugging_mvcc_watcher_total":      &s.Watches,
		"etcd_debugging_mvcc_watch_stream_total": &s.Streams,
		"process_open_fds":                       &s.Files,
		"go_memstats_heap_inuse_bytes":           &s.Heap,
	})
}

// scrape reads metrics. It opens a connection for each reply, so that no figure
// depends on whether an idle connection is still open. It does not use an http.Client,
// whose goroutines could still be ending when the next figures are taken.
func (e *onEtcd) scrape(ctx context.Context, into map[string]*int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.cluster.Endpoints()[0]+"/metrics", nil)
	if err != nil {
		return fmt.Errorf("load: ask for metrics: %w", err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", req.URL.Host)
	if err != nil {
		return fmt.Errorf("load: ask for metrics: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := req.Write(conn); err != nil {
		return fmt.Errorf("load: ask for metrics: %w", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return fmt.Errorf("load: ask for metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	found := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if into[name] == nil {
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("load: metric %q: %w", name, err)
		}
		*into[name] = int64(f)
		found++
	}
	if found != len(into) {
		return fmt.Errorf("load: found %d of %d metrics", found, len(into))
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// Entries implements Service.
func (e *onEtcd) Entries(ctx context.Context, name string) (int, error) {
	prefix := etcdbackend.DefaultRoot + "/" + strings.ReplaceAll(name, "/", "%2F") + "/"
	r, err := e.control.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("load: count %q: %w", prefix, err)
	}
	return int(r.Count), nil
}

// Tidy implements Service. Without a compaction the server keeps every name that ever
// existed, also in its memory. In production, operators set
// --auto-compaction-retention for that.
func (e *onEtcd) Tidy(ctx context.Context) error {
	r, err := e.control.Get(ctx, "\x00")
	if err == nil {
		_, err = e.control.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil && !strings.Contains(err.Error(), "has been compacted") { // no write since the last one
		return fmt.Errorf("load: compact: %w", err)
	}
	return nil
}

// Close implements Service.
func (e *onEtcd) Close() error { return errors.Join(e.control.Close(), e.cluster.Close()) }

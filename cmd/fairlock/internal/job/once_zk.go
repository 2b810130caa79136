package job

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// zkMarks keeps marks in nodes, <root>/%beside/<name>/done/<key>.
type zkMarks struct {
	conn   *zk.Conn
	hold   *session.Hold
	folder string
	acl    []zk.ACL
}

// silent is the log of a connection that is there for a moment.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}

func (j *job) zkMarks(ctx context.Context, h *session.Hold) (marks, error) {
	a := *j.target.Address
	o := j.target.Options
	a.CAFile, a.ServerName = cmp.Or(o.CAFile, a.CAFile), cmp.Or(o.ServerName, a.ServerName)
	if o.CertFile != "" || o.KeyFile != "" {
		a.CertFile, a.KeyFile = o.CertFile, o.KeyFile
	}
	cfg, err := a.TLSConfig()
	if err != nil {
		return nil, err
	}
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		d := net.Dialer{Timeout: timeout}
		if cfg == nil {
			return d.DialContext(ctx, network, address)
		}
		return (&tls.Dialer{NetDialer: &d, Config: cfg}).DialContext(ctx, network, address)
	}
	conn, events, err := zk.Connect(a.Hosts, callTimeout, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(dial))
	if err != nil {
		return nil, err
	}
	m := &zkMarks{conn: conn, hold: h, acl: zk.WorldACL(zk.PermAll)}
	if err = connected(ctx, events); err == nil && o.Username != "" {
		err = conn.AddAuth("digest", []byte(o.Username+":"+o.Password))
	}
	if a.ACL == "auth" {
		m.acl = zk.AuthACL(zk.PermAll)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	root := strings.TrimSuffix(cmp.Or(a.Root, zkbackend.DefaultRoot), "/")
	entry := zkbackend.Guard(h)[0].Path
	line := strings.TrimPrefix(entry[:strings.LastIndexByte(entry, '/')], root+"/")
	m.folder = root + "/%beside/" + strings.ReplaceAll(line, "/", "%2F") + "/done"
	return m, nil
}

// connected waits for the connection's session.
func connected(ctx context.Context, events <-chan zk.Event) error {
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return errors.New("the connection was closed")
			}
			if e.State == zk.StateHasSession {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("no connection: %w", context.Cause(ctx))
		}
	}
}

func (m *zkMarks) read(_ context.Context, key string) ([]byte, error) {
	path := m.folder + "/" + escape(key)
	// What the holder before has written may not have reached this server yet.
	if _, err := m.conn.Sync(m.folder[:strings.LastIndexByte(m.folder, '/')]); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	b, _, err := m.conn.Get(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return b, err
}

func (m *zkMarks) write(_ context.Context, key string, value []byte) error {
	for i := 1; i < len(m.folder); i++ {
		if m.folder[i] != '/' {
			continue
		}
		if err := m.folderAt(m.folder[:i]); err != nil {
			return err
		}
	}
	if err := m.folderAt(m.folder); err != nil {
		return err
	}
	ops := []any{&zk.CreateRequest{Path: m.folder + "/" + escape(key), Data: value, Acl: m.acl}}
	for _, c := range zkbackend.Guard(m.hold) {
		ops = append(ops, c)
	}
	_, err := m.conn.Multi(ops...)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return fmt.Errorf("the lock is not held any more: %w", err)
	}
	return err
}

func (m *zkMarks) folderAt(path string) error {
	_, err := m.conn.Create(path, nil, 0, m.acl)
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		if ok, _, e := m.conn.Exists(path); e == nil && ok { // of folders that are there, permission to create is not needed
			return nil
		}
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

func (m *zkMarks) close() { m.conn.Close() }

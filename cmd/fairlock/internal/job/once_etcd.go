package job

import (
	"cmp"
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/session"
)

// etcdMarks keeps marks in keys, <root>/%beside/<name>/done/<key>.
type etcdMarks struct {
	client *clientv3.Client
	hold   *session.Hold
	prefix string
}

func (j *job) etcdMarks(ctx context.Context, h *session.Hold) (marks, error) {
	a := *j.target.Address
	o := j.target.Options
	a.CAFile, a.ServerName = cmp.Or(o.CAFile, a.CAFile), cmp.Or(o.ServerName, a.ServerName)
	if o.CertFile != "" || o.KeyFile != "" {
		a.CertFile, a.KeyFile = o.CertFile, o.KeyFile
	}
	tls, err := a.TLSConfig()
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: a.Hosts, TLS: tls, Username: o.Username, Password: o.Password,
		Logger: zap.NewNop(), DialTimeout: callTimeout, Context: ctx,
	})
	if err != nil {
		return nil, err
	}
	root := cmp.Or(a.Root, etcdbackend.DefaultRoot)
	return &etcdMarks{client, h, escape(root) + "/%beside/" + escape(j.Name) + "/done/"}, nil
}

func (m *etcdMarks) read(ctx context.Context, key string) ([]byte, error) {
	resp, err := m.client.Get(ctx, m.prefix+escape(key))
	if err != nil || len(resp.Kvs) == 0 {
		return nil, err
	}
	return resp.Kvs[0].Value, nil
}

func (m *etcdMarks) write(ctx context.Context, key string, value []byte) error {
	resp, err := m.client.Txn(ctx).
		If(etcdbackend.Guard(m.hold)...).
		Then(clientv3.OpPut(m.prefix+escape(key), string(value))).
		Commit()
	if err == nil && !resp.Succeeded {
		return errors.New("the lock is not held any more")
	}
	return err
}

func (m *etcdMarks) close() { _ = m.client.Close() }

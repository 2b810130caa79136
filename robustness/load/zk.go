package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// containerCheck is how often the server checks for folders that have become empty. Its
// default is a minute.
const containerCheck = time.Second / 2

// onZooKeeper is one server.
type onZooKeeper struct {
	ensemble *zktest.Ensemble
	control  *zk.Conn // of the harness, not of a session
}

// ZooKeeper starts one server. The caller closes it.
//
// The server removes empty folders as fast as it can. By default it would remove at most
// 10 000 a minute (znode.container.maxPerMinute), so folders would pile up if a program
// locked new names faster.
func ZooKeeper(ctx context.Context) (Service, error) {
	e, err := zktest.Start(ctx, &zktest.Options{
		Tick: 2 * time.Second, ContainerCheck: containerCheck, HeapBytes: 2 << 30,
		Properties: map[string]string{"znode.container.maxPerMinute": "10000000"},
		Config:     map[string]string{"maxClientCnxns": "0"},
	})
	if err != nil {
		return nil, err
	}
	control, err := e.NewClient(nil)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &onZooKeeper{e, control}, nil
}

// Name implements Service.
func (*onZooKeeper) Name() string { return "zookeeper" }

// Open implements Service.
func (z *onZooKeeper) Open(ctx context.Context, opts session.Options) (*session.Session, error) {
	return zkbackend.Open(ctx, z.ensemble.Endpoints(), &zkbackend.Options{Session: opts})
}

// Server implements Service.
func (z *onZooKeeper) Server(ctx context.Context) (s Server, err error) {
	into := map[string]*int64{
		"zk_znode_count":                &s.Keys,
		"zk_watch_count":                &s.Watches,
		"zk_global_sessions":            &s.Sessions,
		"zk_num_alive_connections":      &s.Streams,
		"zk_open_file_descriptor_count": &s.Files,
	}
	answer, err := z.ensemble.Member(0).Command(ctx, "mntr")
	if err != nil {
		return s, err
	}
	found := 0
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if into[name] == nil {
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return s, fmt.Errorf("load: figure %q: %w", name, err)
		}
		*into[name] = int64(f)
		found++
	}
	if found != len(into) {
		return s, fmt.Errorf("load: found %d of %d figures in:\n%s", found, len(into), answer)
	}
	return s, nil
}

// Entries implements Service.
func (z *onZooKeeper) Entries(_ context.Context, name string) (int, error) {
	there, stat, err := z.control.Exists(zkbackend.DefaultRoot + "/" + name)
	if err != nil {
		return 0, fmt.Errorf("load: count %q: %w", name, err)
	}
	if !there {
		return 0, nil
	}
	return int(stat.NumChildren), nil
}

// Tidy implements Service. ZooKeeper needs no help.
func (*onZooKeeper) Tidy(context.Context) error { return nil }

// Close implements Service.
func (z *onZooKeeper) Close() error {
	z.control.Close()
	return z.ensemble.Close()
}

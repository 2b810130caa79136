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

// containerCheck is how often the server looks for folders that have become
// empty; its own is a minute.
const containerCheck = time.Second / 2

// onZooKeeper is one server.
type onZooKeeper struct {
	ensemble *zktest.Ensemble
	control  *zk.Conn // looks from the side
}

// ZooKeeper starts one server. The caller closes it.
//
// It removes empty folders as fast as it can: of its own accord it would remove
// 10 000 in a minute at most (znode.container.maxPerMinute), and a program that
// locks more new names than that has them pile up.
func ZooKeeper(ctx context.Context) (Store, error) {
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

// Name implements Store.
func (*onZooKeeper) Name() string { return "zookeeper" }

// Open implements Store.
func (z *onZooKeeper) Open(ctx context.Context, opts session.Options) (*session.Session, error) {
	return zkbackend.Open(ctx, z.ensemble.Endpoints(), &zkbackend.Options{Session: opts})
}

// Server implements Store.
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
		return s, fmt.Errorf("load: %d of %d figures are there:\n%s", found, len(into), answer)
	}
	return s, nil
}

// Line implements Store.
func (z *onZooKeeper) Line(_ context.Context, name string) (int, error) {
	there, stat, err := z.control.Exists(zkbackend.DefaultRoot + "/" + name)
	if err != nil {
		return 0, fmt.Errorf("load: count %q: %w", name, err)
	}
	if !there {
		return 0, nil
	}
	return int(stat.NumChildren), nil
}

// Tidy implements Store: ZooKeeper does it by itself.
func (*onZooKeeper) Tidy(context.Context) error { return nil }

// Close implements Store.
func (z *onZooKeeper) Close() error {
	z.control.Close()
	return z.ensemble.Close()
}

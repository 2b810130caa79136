package etcdtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os/exec"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/internal/process"
)

// separate is a member in a process of its own.
type separate struct {
	*process.Process
	admin   *clientv3.Client // straight to this member
	answers chan struct{}    // closed when it answers its peers
	joined  chan struct{}    // closed when it has joined the cluster
}

// startProcess starts a process for the member. halt kills it, and so does the end of
// this process.
func (m *Member) startProcess(ctx context.Context) (*separate, error) {
	// Each process gets a new client: an old one may still wait for its backoff.
	admin, err := m.cluster.NewClient(func(cfg *clientv3.Config) { cfg.Endpoints = []string{m.Direct()} })
	if err != nil {
		return nil, err
	}
	p := &separate{
		// ctx bounds only the start: the process outlives it.
		Process: process.StartPiped(exec.CommandContext(context.WithoutCancel(ctx), m.cluster.binary)),
		admin:   admin,
		answers: make(chan struct{}),
		joined:  make(chan struct{}),
	}
	go p.follow() // ends with the process
	// The process may have ended already; then Err has its standard error.
	_ = json.NewEncoder(p).Encode(&m.spec)
	return p, nil
}

func (p *separate) serving(ctx context.Context) error { return p.reports(ctx, p.answers) }

// reports returns when the process has made a report.
func (p *separate) reports(ctx context.Context, report <-chan struct{}) error {
	select {
	case <-report:
		return nil
	case <-p.Done():
		return p.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow reads the reports of the process until it ends.
func (p *separate) follow() {
	lines := bufio.NewScanner(p)
	for lines.Scan() {
		switch lines.Text() {
		case "serving":
			close(p.answers)
		case "ready":
			close(p.joined)
		}
	}
}

func (p *separate) ready(ctx context.Context) error {
	if err := p.reports(ctx, p.joined); err != nil {
		return err
	}
	// The member has joined the cluster. Check that it also answers clients:
	// this read needs no permissions, whatever users the cluster has.
	_, err := p.admin.Get(ctx, "etcdtest/health", clientv3.WithCountOnly())
	if isAuthError(err) || errors.Is(err, rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)) {
		return nil
	}
	return err
}

func (p *separate) status(ctx context.Context) (self, leader uint64, err error) {
	r, err := p.admin.Status(ctx, p.admin.Endpoints()[0])
	if err != nil {
		return 0, 0, err
	}
	return r.Header.MemberId, r.Leader, nil
}

func (p *separate) moveLeader(ctx context.Context, to uint64) error {
	_, err := p.admin.MoveLeader(ctx, to)
	return err
}

func (p *separate) logged() (all string, n int) { return p.Stderr(), p.StderrLen() }

func (p *separate) halt() { p.Halt() }

func (p *separate) close() { _ = p.admin.Close() }

// isAuthError reports whether a cluster with authentication refused us. Only a
// working cluster can do that.
func isAuthError(err error) bool {
	return errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrPermissionDenied)
}

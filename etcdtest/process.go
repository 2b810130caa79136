package etcdtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest/internal/member"
)

// process is a member in a process of its own.
type process struct {
	cmd     *exec.Cmd
	admin   *clientv3.Client // straight to this member
	serving chan struct{}    // closed when it answers its peers
	joined  chan struct{}    // closed when it has joined the cluster
	done    chan struct{}    // closed when it is gone and reaped
	err     error            // why it went; to be read after done
}

// startProcess returns when the member answers its peers. The process is killed
// by halt, when this process ends, and when ctx ends before it serves. The admin
// client belongs to the process from here on.
func startProcess(ctx context.Context, binary string, spec *member.Spec, admin *clientv3.Client) (*process, error) {
	p := &process{
		// ctx is for starting, which the process outlives.
		cmd:     exec.CommandContext(context.WithoutCancel(ctx), binary),
		admin:   admin,
		serving: make(chan struct{}),
		joined:  make(chan struct{}),
		done:    make(chan struct{}),
	}
	started := make(chan struct{})
	go p.run(spec, started) // ends with the process, which halt waits for
	<-started
	var err error
	select {
	case <-p.serving:
		return p, nil
	case <-p.done:
		err = p.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.halt()
	p.close()
	return nil, fmt.Errorf("etcdtest: start %q: %w", spec.Name, err)
}

// run is the whole life of the process.
func (p *process) run(spec *member.Spec, started chan<- struct{}) {
	// The kernel ends the child with the thread that made it, so that thread
	// has to stay as long as the child does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)

	var stderr bytes.Buffer
	stdin, stdout, err := p.start(&stderr)
	close(started)
	if err != nil {
		p.err = err
		return
	}
	// It may be gone already; then stderr says why.
	_ = json.NewEncoder(stdin).Encode(spec)
	p.follow(stdout)
	// stdin is open until here: its end is what tells the child to go.
	err = p.cmd.Wait()
	if said := strings.TrimSpace(stderr.String()); said != "" {
		err = errors.Join(err, errors.New(said))
	}
	p.err = fmt.Errorf("process ended: %w", err)
}

func (p *process) start(stderr io.Writer) (stdin io.Writer, stdout io.Reader, err error) {
	p.cmd.Stderr = stderr
	p.cmd.SysProcAttr = dieWithParent()
	if stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	return stdin, stdout, p.cmd.Start()
}

// follow reads what the process says of itself until it ends.
func (p *process) follow(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		switch lines.Text() {
		case "serving":
			close(p.serving)
		case "ready":
			close(p.joined)
		}
	}
}

func (p *process) ready(ctx context.Context) error {
	select {
	case <-p.joined:
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
	// The member answers; does it answer clients, too? This needs no
	// permissions, whatever users the cluster knows.
	_, err := p.admin.Get(ctx, "etcdtest/health", clientv3.WithCountOnly())
	if isAuthError(err) {
		return nil
	}
	return err
}

func (p *process) status(ctx context.Context) (self, leader uint64, err error) {
	r, err := p.admin.Status(ctx, p.admin.Endpoints()[0])
	if err != nil {
		return 0, 0, err
	}
	return r.Header.MemberId, r.Leader, nil
}

func (p *process) moveLeader(ctx context.Context, to uint64) error {
	_, err := p.admin.MoveLeader(ctx, to)
	return err
}

// halt kills the process and returns when it is gone.
func (p *process) halt() {
	// An error means that it is gone already, or was never there.
	_ = p.signal(os.Kill)
	<-p.done
}

func (p *process) close() { _ = p.admin.Close() }

func (p *process) signal(sig os.Signal) error {
	if p.cmd.Process == nil {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(sig)
}

// isAuthError reports whether a cluster that knows users turned us away, which
// only a working one can.
func isAuthError(err error) bool {
	return errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrPermissionDenied)
}

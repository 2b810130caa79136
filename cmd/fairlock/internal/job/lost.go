package job

import (
	"context"
	"os/exec"
	"time"

	"github.com/fairlock/fairlock/session"
)

// mournTimeout is how long the program of --on-lost-exec may take: nobody is to
// wait for it for ever.
const mournTimeout = 30 * time.Second

// envLost says to that program why the lock is lost.
const envLost = "FAIRLOCK_LOST"

// mourner runs a program once when the lock is lost. A nil one runs none.
type mourner struct {
	job    *job
	hold   *session.Hold
	cmd    *exec.Cmd
	cancel context.CancelFunc
}

func (j *job) mourner(h *session.Hold) *mourner {
	if j.OnLostExec == "" {
		return nil
	}
	return &mourner{job: j, hold: h}
}

// start runs the program, unless it was before. It is not waited for: the command
// may live yet, and somebody has to look after it.
//
//nolint:contextcheck // it is to run although, and because, all contexts have ended
func (m *mourner) start() {
	if m == nil || m.cancel != nil {
		return
	}
	var ctx context.Context
	ctx, m.cancel = context.WithTimeout(context.Background(), mournTimeout)
	why := "the time of the session was over"
	if err := context.Cause(m.hold.Context()); err != nil {
		why = err.Error()
	}
	cmd := exec.CommandContext(ctx, m.job.lostPath)
	cmd.Args = []string{m.job.OnLostExec}
	cmd.Env = append(m.job.environment(m.hold), envLost+"="+why)
	cmd.Stdout, cmd.Stderr = m.job.std.Err, m.job.std.Err // stdout is the command's
	if err := cmd.Start(); err != nil {
		m.job.tell.alarm("--on-lost-exec: %v", err)
		return
	}
	m.cmd = cmd
}

// wait returns when the program has ended, if it was run.
func (m *mourner) wait() {
	if m == nil || m.cancel == nil {
		return
	}
	defer m.cancel()
	if m.cmd == nil {
		return
	}
	if err := m.cmd.Wait(); err != nil {
		m.job.tell.alarm("--on-lost-exec %s: %v", m.job.OnLostExec, err)
	}
}

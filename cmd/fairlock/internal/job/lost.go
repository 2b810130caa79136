package job

import (
	"context"
	"os/exec"
	"time"

	"github.com/fairlock/fairlock/session"
)

// lossTimeout bounds the program of --on-lost-exec, because fairlock waits for it.
const lossTimeout = 30 * time.Second

// envLost is the variable of that program with the reason for the loss.
const envLost = "FAIRLOCK_LOST"

// lossProgram runs the program of --on-lost-exec once, when the lock is lost. A nil
// lossProgram runs none.
type lossProgram struct {
	job  *job
	hold *session.Hold
	done chan struct{} // closed when the program has ended; nil before the start
}

func (j *job) lossProgram(h *session.Hold) *lossProgram {
	if j.OnLostExec == "" {
		return nil
	}
	return &lossProgram{job: j, hold: h}
}

// start starts the program, unless it was started before. The error is why the lock was
// lost, nil if the deadline has passed and the session does not know it yet. It does not wait
// for the program: the command may still live, and must be supervised.
//
//nolint:contextcheck // the program runs because the hold's context has ended
func (m *lossProgram) start(lost error) {
	if m == nil || m.done != nil {
		return
	}
	m.done = make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), lossTimeout)
	why := "the time of the session was over"
	if lost != nil {
		why = lost.Error()
	}
	cmd := exec.CommandContext(ctx, m.job.lostPath)
	cmd.Args = []string{m.job.OnLostExec}
	cmd.Env = append(m.job.environment(m.hold), envLost+"="+why)
	cmd.Stdout, cmd.Stderr = m.job.std.Err, m.job.std.Err // stdout is the command's
	err := cmd.Start()
	go func() { // ends with the program, and wait waits for it
		defer close(m.done)
		defer cancel()
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			m.job.rep.warn("--on-lost-exec %s: %v", m.job.OnLostExec, err)
		}
	}()
}

// wait waits until the program has ended, if it was started.
func (m *lossProgram) wait() {
	if m != nil && m.done != nil {
		<-m.done
	}
}

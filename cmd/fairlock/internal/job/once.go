package job

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/session"
)

// maxOnce is the most bytes that a key of --once takes.
const maxOnce = 256

// callTimeout bounds what is asked of the service for a mark.
const callTimeout = 5 * time.Second

// mark says that a job was done, and by whom. It stays at the service, beside the
// line, until somebody deletes it.
type mark struct {
	V     int       `json:"v"`
	Token int64     `json:"token"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Time  time.Time `json:"time"`

	now time.Time // when it was read
}

func (m *mark) String() string {
	return fmt.Sprintf("token %d, %s pid %d, %s ago", m.Token, m.Host, m.PID, age(m.now.Sub(m.Time)))
}

// marks is where marks are kept.
type marks interface {
	// read returns a mark, nil if there is none. What was written under an earlier
	// hold of the same lock is seen.
	read(ctx context.Context, key string) ([]byte, error)
	// write writes a mark if the lock is held, in the same instant.
	write(ctx context.Context, key string, value []byte) error
	close()
}

// CheckOnce says what is wrong with a key.
func CheckOnce(key string) error {
	switch {
	case key == "":
		return exit.Errorf(exit.Usage, "--once wants a key, such as the time for which the job is")
	case len(key) > maxOnce:
		return exit.Errorf(exit.Usage, "--once takes at most %d bytes, not %d", maxOnce, len(key))
	case !utf8.ValidString(key):
		return exit.Errorf(exit.Usage, "--once wants UTF-8")
	}
	return nil
}

// doneBefore returns the mark of who has done this already.
func (j *job) doneBefore(ctx context.Context, h *session.Hold) (*mark, error) {
	if j.Once == "" {
		return nil, nil
	}
	var b []byte
	err := j.withMarks(ctx, h, func(ctx context.Context, ms marks) (err error) {
		b, err = ms.read(ctx, j.Once)
		return err
	})
	if err != nil || b == nil {
		return nil, err
	}
	m := &mark{now: j.clock.Wall()}
	if err = json.Unmarshal(b, m); err != nil {
		return nil, exit.Errorf(exit.Software, "the mark of --once %q is not one of ours: %w", j.Once, err)
	}
	return m, nil
}

// markDone writes the mark. It is written last, by a holder only: what has failed
// or was lost is done again by whoever comes next.
func (j *job) markDone(ctx context.Context, h *session.Hold) {
	if j.Once == "" {
		return
	}
	host, _ := os.Hostname()
	b, err := json.Marshal(mark{V: 1, Token: int64(h.Token()), Host: host, PID: os.Getpid(), Time: j.clock.Wall().UTC()})
	if err == nil {
		err = j.withMarks(ctx, h, func(ctx context.Context, ms marks) error { return ms.write(ctx, j.Once, b) })
	}
	if err != nil {
		j.tell.alarm("the command ran, but the mark of --once %q could not be written, so it may run again: %s", j.Once, exit.Plain(err))
	}
}

// withMarks opens the service a second time: a session is for locks only. It
// gives up when the hold ends.
//
//nolint:contextcheck // the hold's own context, which is not one of ctx's
func (j *job) withMarks(ctx context.Context, h *session.Hold, f func(context.Context, marks) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer context.AfterFunc(h.Context(), cancel)()
	var ms marks
	var err error
	switch j.target.Address.Service {
	case address.Etcd:
		ms, err = j.etcdMarks(ctx, h)
	case address.ZooKeeper:
		ms, err = j.zkMarks(ctx, h)
	default:
		return exit.Errorf(exit.Usage, "--once wants a service that others see too, not mem://")
	}
	if err == nil {
		defer ms.close()
		err = f(ctx, ms)
	}
	if err != nil {
		return fmt.Errorf("--once: %w", err)
	}
	return nil
}

// escape writes a name as one part of a path.
func escape(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r == '%' || r == '/' || unicode.IsControl(r) {
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

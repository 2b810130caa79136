package waits

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session"
)

const (
	queues  = 10          // whose holders one answer reads
	reading = time.Second // how long the answer waits for them
)

// WithHolders returns a handler like the Table itself whose text also shows which clients
// hold a lock at the service, in other processes too. It reads up to 10 queues for each
// answer, those of the longest waits, with Session.Queue of s. It waits for them for at most
// a second; in an outage the text has the error in the place of the holders.
//
// The Table may serve several Sessions. The text shows the holders of a lock only where the
// queue that s has read contains one of the requests that wait.
func (t *Table) WithHolders(s *session.Session) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { t.serve(w, req, s.Queue) })
}

// readQueue reads the queue of a lock.
type readQueue func(ctx context.Context, name string) ([]session.Entry, error)

// atService is what was read of the queues at the service, by the names of locks.
type atService map[string]reply

// reply is the answer to a read.
type reply struct {
	queue []session.Entry
	err   error
}

// readHolders reads the queues of the locks that were waited for longest.
func (s *snapshot) readHolders(ctx context.Context, read readQueue) atService {
	var names []string
	for i := range s.waits {
		for _, name := range s.waits[i].locks() {
			if len(names) < queues && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, reading)
	defer cancel()
	replies := make([]reply, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { replies[i].queue, replies[i].err = read(ctx, name) })
	}
	all.Wait() // reads end with ctx
	found := atService{}
	for i, name := range names {
		found[name] = replies[i]
	}
	return found
}

// holders returns a line for each holder of what a group waits for, and whether they are
// known.
func (a atService) holders(g *group, now time.Time) (lines []string, known bool) {
	for _, name := range g.waits[0].locks() {
		reply, read := a[name]
		switch {
		case !read:
			continue
		case reply.err != nil:
			lines = append(lines, fmt.Sprintf("the holder could not be read: %v", reply.err))
			continue
		case !slices.ContainsFunc(reply.queue, g.has):
			continue
		}
		known = true
		for i, e := range reply.queue {
			if e.State != session.Holder || i == listed {
				break
			}
			held := session.NotAcquiredError{Holder: e, Now: now} // its text quotes what entries claim
			lines = append(lines, fmt.Sprintf("%s, token %s of session %s", strings.TrimPrefix(held.Error(), session.ErrNotAcquired.Error()+": "), e.Token, e.Session))
		}
	}
	return lines, known
}

// has reports whether an entry is that of one of the group's requests.
func (g *group) has(e session.Entry) bool {
	return slices.ContainsFunc(g.waits, func(r request) bool { return r.joined && r.token == e.Token && r.session == e.Session })
}

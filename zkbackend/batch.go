package zkbackend

import (
	"context"
	"sync"

	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// batch is reads that are sent together, and carried out in their order on one connection.
type batch struct {
	reqs []conn.Request
	take []func(conn.Answer) error
}

// add adds a read, and what is to be done with the answer.
func (b *batch) add(req conn.Request, take func(conn.Answer) error) {
	b.reqs, b.take = append(b.reqs, req), append(b.take, take)
}

// addFolder adds the listing of a folder. One that is not there has no children.
func (b *batch) addFolder(path string, take func(conn.Answer)) {
	b.add(conn.Children(path), func(a conn.Answer) error {
		if a.Err != nil && !isMissing(a.Err) {
			return translate(a.Err, "READ", path)
		}
		take(a)
		return nil
	})
}

// run sends the reads, behind a Sync if the answers must not be older than the call: only a
// server that is alone has nothing to wait for. It returns the first error.
func (b *batch) run(ctx context.Context, s *zkSession, fresh bool) error {
	reqs := b.reqs
	if len(reqs) == 0 {
		return nil
	}
	if fresh = fresh && !s.conn.Standalone(); fresh {
		reqs = append([]conn.Request{conn.Sync()}, reqs...)
	}
	answers, err := s.conn.Read(ctx, reqs...)
	if err != nil {
		return err //nolint:wrapcheck // the verbs do
	}
	for i, take := range b.take {
		if err := take(answers[i+len(reqs)-len(b.reqs)]); err != nil {
			return err
		}
	}
	return nil
}

// seen is what a session remembers of what it has read or written. Nothing may rely on it,
// so it is forgotten as a whole when there is too much.
type seen[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V
}

const maxSeen = 4096

func (s *seen[K, V]) get(k K) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.all[k]
	return v, ok
}

// put remembers v unless better reports that what is remembered is better.
func (s *seen[K, V]) put(k K, v V, better func(old V) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= maxSeen {
		s.all = make(map[K]V)
	}
	if old, ok := s.all[k]; !ok || better == nil || !better(old) {
		s.all[k] = v
	}
}

func (s *seen[K, V]) forget(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, k)
}

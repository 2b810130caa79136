package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"
)

// makeFolder creates what is missing of a folder, as containers: the servers
// remove them when they have been empty for a while (a minute, unless they were
// told otherwise), so that a lock that nobody uses leaves nothing. A folder that
// is removed between its making and its use is made again by the caller.
func (s *sess) makeFolder(ctx context.Context, dir string) error {
	// From the bottom: usually only the last one is missing.
	missing := []string{}
	for d := dir; d != ""; d, _ = split(d) {
		err := s.makeContainer(ctx, d)
		if err == nil {
			break
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		missing = append(missing, d)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := s.makeContainer(ctx, missing[i]); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// makeContainer creates one container; it is no error if it is there.
func (s *sess) makeContainer(ctx context.Context, dir string) error {
	_, err := ask(ctx, s, func(c *zk.Conn) (string, error) {
		return c.CreateContainer(dir, []byte{}, zk.FlagContainer, s.acl())
	})
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return err
	}
	parent, _ := split(dir)
	return fmt.Errorf("create the folder %s: %w", dir, translate(err, "CREATE", orRoot(parent)))
}

// orRoot writes the root's path as ZooKeeper does.
func orRoot(dir string) string {
	if dir == "" {
		return "/"
	}
	return dir
}

// The word that a holder leaves when it gives back an entry that is not sealed
// (see seal): the entry's name, in the data of the folder, written in the
// transaction that deletes it. Who
// stood right behind reads it and knows that nobody is ahead: the holder was
// first, and the set ahead of an entry only shrinks. Names have a random part,
// so an old word is never taken for another's. A joiner writes there too (that
// is how it learns its czxid and how many are ahead), and repeats the newest
// word that it knows; if that is not the newest, the one behind reads the line.
const markPrefix = "fairlock1 "

func markOf(name string) string { return markPrefix + name }

// isMark says whether a folder's data is the word of the entry of that name.
func isMark(data []byte, name string) bool { return string(data) == markPrefix+name }

// word is what this session writes into a folder when it joins: the newest word
// that it knows.
func (s *sess) word(dir string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(s.marks[dir])
}

// forgetWord makes the next word of a folder empty. It reports whether there was
// one.
func (s *sess) forgetWord(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, had := s.marks[dir]
	delete(s.marks, dir)
	return had
}

// maxMarks bounds what a session remembers of folders. It is a help only, so it
// is forgotten as a whole.
const maxMarks = 1024

// remember notes the newest word of a folder.
func (s *sess) remember(dir string, word string) {
	if !strings.HasPrefix(word, markPrefix) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	jot(s.marks, dir, word)
}

// jot puts something into what a session remembers.
func jot[V any](m map[string]V, key string, v V) {
	if len(m) >= maxMarks {
		clear(m)
	}
	m[key] = v
}

// held reads the folder's word and says whether it is that of the entry which
// has just gone. False means that this is not known. It asks once, on the link
// that told of the end.
func (s *sess) held(l *link, path string) bool {
	if s.b.wary.Load() {
		return false
	}
	dir, name := split(path)
	data, err := once(s.ctx, s, l, func(c *zk.Conn) ([]byte, error) {
		data, _, err := c.Get(dir)
		return data, err
	})
	if err != nil {
		return false
	}
	s.remember(dir, string(data))
	return isMark(data, name)
}

package zkbackend

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

const (
	// moment is how long a grant lasts before the word that it rests on is doubted.
	moment = 50 * time.Millisecond
	// long is how many entries make a line that is not read so soon ...
	long = 1000
	// ... but after this for each, so that reading it is never what a server does
	// most.
	forEach = 50 * time.Microsecond
)

// doubtful is an entry whose word was believed: that it held, so nobody is before
// it any more. Nobody else could have written the word, but whoever may stand in a
// line can leave one without ever having held.
type doubtful struct {
	path  string
	zxid  int64 // the newest transaction that the session knew of
	since driver.Instant
	asked bool
}

// doubt has a line looked at in a moment, because the word of an entry was
// believed, unless that is of no interest any more by then. The caller holds s.mu.
func (s *sess) doubt(path string) {
	dir, _ := split(path)
	d := &doubtful{path: path, zxid: s.zxid, since: s.b.clock.Now()}
	if s.cur != nil {
		d.zxid = max(d.zxid, s.cur.zxid.Load())
	}
	s.doubts[dir] = d
	if !s.doubting {
		s.doubting = true
		s.b.clock.AfterFunc(moment, s.ponder)
	}
}

// ponder asks about those whose word was believed a moment ago.
func (s *sess) ponder() {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := time.Duration(0)
	for dir, d := range s.doubts {
		switch left := moment - s.b.clock.Now().Sub(d.since); {
		case d.asked:
		case left > 0:
			rest = max(rest, left)
		default:
			d.asked = true
			s.goes(func() { s.verify(dir, d) })
		}
	}
	if s.doubting = rest > 0; s.doubting {
		s.b.clock.AfterFunc(rest, s.ponder)
	}
}

// verify ends the session if a word was wrong that it believed, and has nobody
// believed from then on.
func (s *sess) verify(dir string, d *doubtful) {
	if !s.stillDoubted(dir, d) {
		return
	}
	err := s.refute(dir, d)
	if err == nil {
		return
	}
	s.b.unsealed.Store(true)
	s.b.wary.Store(true)
	s.cfg.Logger.Error("zookeeper: a lock may have been granted twice; ending the session", "session", s.ID(), "err", err)
	s.cancel()
	s.cfg.Gone(err)
}

// stillDoubted waits for longer if the line is long, and says whether it is still
// of interest what is in it.
func (s *sess) stillDoubted(dir string, d *doubtful) bool {
	folder, err := s.exists(s.ctx, dir)
	if err == nil && folder != nil && folder.NumChildren > long {
		driver.Sleep(s.ctx, s.b.clock, time.Duration(folder.NumChildren)*forEach)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubts[dir] != d {
		return false
	}
	delete(s.doubts, dir)
	return true
}

// refute looks for what shows that a word was wrong: the entry itself, or one
// before it. One with a low number that came after the word was put there by a
// program that makes up numbers, and says nothing about it.
func (s *sess) refute(dir string, d *doubtful) error {
	// The word may have come from another server than the one that is asked now,
	// and the session does not count the transactions of events: what this server
	// shows may be older than the word.
	if s.catchUp(s.ctx) != nil {
		return nil // it is not known
	}
	c, err := s.children(s.ctx, dir)
	if err != nil {
		return nil
	}
	_, name := split(d.path)
	last, _ := parseNode(name)
	for _, n := range slices.Backward(parseNodes(c.names)) {
		if n.seq > last.seq {
			continue
		}
		stat, err := s.exists(s.ctx, dir+"/"+n.name)
		switch {
		case err != nil || stat == nil || stat.Czxid > d.zxid:
		case n.name == name:
			return fmt.Errorf("%w: %s", errBroken, d.path)
		default:
			return fmt.Errorf("%w: %s, behind %s", errWord, d.path, n.name)
		}
	}
	return nil
}

// errWord: the owner of an entry is a liar, or does not know what a seal means.
var errWord = errors.New("zookeeper: an entry recorded a hold that it cannot have had")

// errBroken: somebody wrote an entry that was not his.
var errBroken = errors.New("zookeeper: another client wrote a sealed entry, which takes the login \"super\"")

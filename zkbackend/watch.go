package zkbackend

import (
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// watched is an entry with at least one watcher. There is one watch at the
// server for all of them, made by a read of its data: of a node that is not there that fails,
// where ExistsW would leave a watch behind for ever. A watch there fires once,
// so after a change it is made again, and after a reconnect too.
//
// Events come through the library's callback, in the order of the connection,
// and so do they reach the watchers. Made by a goroutine of its own each, Armed
// may be late behind events, and is never early.
type watched struct {
	ref   driver.Ref
	subs  []*watcher
	armed bool // the watch stands, on the present link
	busy  bool // it is being made there ...
	fired bool // ... and an event came meanwhile, perhaps its own
	past  bool // it cannot be read, and its folder is watched in its stead

	// changes is how many changes of the entry, of all in its life, those who
	// were told that the watch stands know of.
	changes int32
}

// watcher is one call of Watch. Its fields are guarded by sess.mu.
type watcher struct {
	f        func(driver.Event)
	req      driver.WatchRequest
	told     bool // Armed was the last of Armed and Broken that it was told
	canceled bool
}

// Watch implements driver.Session.
func (s *sess) Watch(req driver.WatchRequest, f func(driver.Event)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return func() {}
	}
	if req.Of != driver.OfEntry {
		return s.hear(req, f)
	}
	w := s.watches[req.Ref.Key]
	if w == nil {
		w = &watched{ref: req.Ref}
		s.watches[req.Ref.Key] = w
	}
	sub := &watcher{f: f, req: req}
	w.subs = append(w.subs, sub)
	if w.armed {
		s.out.post(func() { s.tellArmed(w) })
	} else {
		s.arm(w)
	}
	return func() { s.unwatch(w, sub) }
}

// unwatch takes a watcher away. What stands at the server and in the library
// cannot be taken back, so it is kept for whoever comes next, until the entry goes
// or the link: there is one at most for each living entry, however often it is
// watched.
func (s *sess) unwatch(w *watched, sub *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.canceled = true
	w.subs = slices.DeleteFunc(w.subs, func(o *watcher) bool { return o == sub })
	if !w.armed {
		s.drop(w)
	}
}

// drop forgets an entry that nobody watches, and that no watch is being made of.
// The caller holds s.mu.
func (s *sess) drop(w *watched) {
	if len(w.subs) == 0 && !w.busy && s.watches[w.ref.Key] == w {
		delete(s.watches, w.ref.Key)
	}
}

// again makes a watch that has fired anew, if somebody needs it. The caller holds
// s.mu.
func (s *sess) again(w *watched) {
	if len(w.subs) > 0 {
		s.arm(w)
	} else {
		s.drop(w)
	}
}

// armAll makes all watches on a new link.
func (s *sess) armAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		s.arm(w)
	}
	for _, b := range s.bells {
		s.hang(b)
	}
}

// arm makes the watch of an entry at the server, unless that is being done. If
// the link is lost meanwhile, it is done on the next one. The caller holds s.mu.
func (s *sess) arm(w *watched) {
	l, epoch := s.cur, s.epoch
	if l == nil || w.busy {
		return
	}
	w.busy = s.goes(func() {
		changes, err := once(s.ctx, s, l, func(c *zk.Conn) (int32, error) {
			_, stat, err := getWatched(c, w.ref.Key)
			if errors.Is(err, zk.ErrNoAuth) {
				s.passBy(w)
				return 0, watchFolder(c, w.ref.Key)
			}
			if err != nil {
				return 0, err
			}
			if n, ok := refNode(w.ref); ok {
				s.sight(w.ref.Line, n, stat.EphemeralOwner)
			}
			return stat.Version, nil
		})
		switch {
		case err == nil:
			s.out.post(func() { s.isArmed(w, epoch, changes) })
		case errors.Is(err, zk.ErrNoNode):
			s.out.post(func() { s.hasGone(w, false) })
		case hasCode(err, codeThrottled):
			driver.Sleep(s.ctx, s.b.clock, throttled)
			s.out.post(func() { s.rearm(w, epoch) })
		case outcomeOf(err) == refused:
			s.cfg.Logger.Warn("zookeeper: cannot watch an entry", "path", w.ref.Key, "err", err)
		}
	})
}

// throttled is how long a server that has too much to do is left alone.
const throttled = 100 * time.Millisecond

// rearm makes a watch again that the server had no time for. It runs in the
// dispatcher.
func (s *sess) rearm(w *watched, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch && s.watches[w.ref.Key] == w {
		w.busy = false
		s.again(w)
	}
}

// passBy notes that an entry's folder is about to be watched in its stead.
func (s *sess) passBy(w *watched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.past = true
}

// watchFolder has the folder of an entry watched in its stead, because the entry
// cannot be read. Whether it is there may be asked all the same, but servers that
// have CVE-2024-23944 mended tell nobody of its end who may not read it.
func watchFolder(c *zk.Conn, path string) error {
	dir, name := split(path)
	names, _, err := childrenWatched(c, dir)
	if err == nil && !slices.Contains(names, name) {
		err = zk.ErrNoNode
	}
	return err
}

// isArmed takes in that the watch of an entry stands, which was changed so many
// times before. It runs in the dispatcher.
func (s *sess) isArmed(w *watched, epoch int, changes int32) {
	s.mu.Lock()
	if s.epoch != epoch || s.watches[w.ref.Key] != w {
		s.mu.Unlock()
		return
	}
	w.busy, w.armed = false, !w.fired
	if w.fired {
		w.fired = false
		s.again(w)
	}
	var missed []*watcher
	if changes > w.changes {
		w.changes = changes
		for _, sub := range w.subs {
			if sub.told && sub.req.Changes {
				missed = append(missed, sub)
			}
		}
	}
	s.mu.Unlock()
	s.deliver(missed, driver.Event{Kind: driver.Changed})
	s.tellArmed(w)
}

// tellArmed tells those who do not know it yet that the watch stands, if it
// does, and who wants to know it that the entry was changed before. It runs in
// the dispatcher.
func (s *sess) tellArmed(w *watched) {
	s.mu.Lock()
	var news, changed []*watcher
	for _, sub := range w.subs {
		if w.armed && !sub.told {
			sub.told = true
			news = append(news, sub)
			if sub.req.Changes && w.changes > 0 {
				changed = append(changed, sub)
			}
		}
	}
	s.mu.Unlock()
	s.deliver(news, driver.Event{Kind: driver.Armed})
	s.deliver(changed, driver.Event{Kind: driver.Changed})
}

// event is the library's callback.
func (s *sess) event(ev zk.Event) {
	switch ev.Type {
	case zk.EventNodeDeleted, zk.EventNodeDataChanged, zk.EventNodeChildrenChanged:
	default:
		return
	}
	s.mu.Lock()
	w, b := s.watches[ev.Path], s.bells[ev.Path]
	s.mu.Unlock()
	if b != nil {
		s.out.post(func() { s.rings(b) })
	}
	switch {
	case ev.Type == zk.EventNodeChildrenChanged:
		s.folderEvent(ev.Path)
	case w == nil:
	case ev.Type == zk.EventNodeDeleted:
		s.out.post(func() { s.hasGone(w, false) })
	default:
		s.out.post(func() { s.isChanged(w, true) })
	}
}

// folderEvent is told of a folder that is watched, perhaps for the sake of
// entries in it. Making their watches again shows whether they are still there.
func (s *sess) folderEvent(folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if dir, _ := split(w.ref.Key); w.past && dir == folder {
			s.out.post(func() { s.isChanged(w, false) })
		}
	}
}

// isChanged takes in that somebody wrote to an entry. The watch has fired, so
// until it is made again the own entry could go without a word; for others that
// is no loss, since they will be found gone. Of a sealed entry it means that its
// owner held and has given it back, unless it is not known that it was the entry.
// It runs in the dispatcher.
func (s *sess) isChanged(w *watched, entry bool) {
	s.mu.Lock()
	if s.watches[w.ref.Key] != w {
		s.mu.Unlock()
		return
	}
	if entry && s.isWord(w) {
		s.mu.Unlock()
		s.hasGone(w, true)
		return
	}
	var changed, broken []*watcher
	for _, sub := range w.subs {
		if !sub.told {
			continue
		}
		if sub.req.Changes {
			changed = append(changed, sub)
		}
		if sub.req.Own {
			sub.told = false
			broken = append(broken, sub)
		}
	}
	if entry {
		w.changes++
	}
	w.armed, w.fired = false, w.busy
	s.again(w)
	s.mu.Unlock()
	s.deliver(changed, driver.Event{Kind: driver.Changed})
	s.deliver(broken, driver.Event{Kind: driver.Broken})
}

// isWord says that a change of an entry is the word of a hold that was given
// back, in the transaction that has deleted it. The caller holds s.mu.
func (s *sess) isWord(w *watched) bool {
	if s.leaving[w.ref.Key] {
		return true
	}
	if _, name := split(w.ref.Key); s.seal == nil || s.b.wary.Load() || !sealed(name) {
		return false
	}
	return !slices.ContainsFunc(w.subs, func(o *watcher) bool { return o.req.Own || o.req.Changes })
}

// hasGone takes in that an entry is no more, and whether it is known that it
// held. Of entries that are not sealed, who wants to know is told one read
// later. It runs in the dispatcher.
func (s *sess) hasGone(w *watched, held bool) {
	s.mu.Lock()
	if s.watches[w.ref.Key] != w {
		s.mu.Unlock()
		return
	}
	w.armed = false // nobody is told so any more
	delete(s.watches, w.ref.Key)
	delete(s.leased, w.ref.Key)
	if !held {
		s.orphaned(w.ref)
	}
	now, tell := []*watcher{}, []*watcher{}
	for _, sub := range w.subs {
		if sub.req.Tell {
			tell = append(tell, sub)
		} else {
			now = append(now, sub)
		}
	}
	if held && !s.leaving[w.ref.Key] && len(w.subs) > 0 {
		s.doubt(w.ref.Key)
	}
	_, name := split(w.ref.Key)
	l := s.cur
	asked := len(tell) > 0 && !sealed(name) && l != nil && s.goes(func() {
		held := s.held(l, w.ref.Key)
		if held {
			s.mu.Lock()
			s.doubt(w.ref.Key)
			s.mu.Unlock()
		}
		s.out.post(func() { s.deliver(tell, driver.Event{Kind: driver.Gone, Held: held}) })
	})
	s.mu.Unlock()
	s.deliver(now, driver.Event{Kind: driver.Gone})
	if !asked {
		s.deliver(tell, driver.Event{Kind: driver.Gone, Held: held})
	}
}

// breakWatches takes in that the link was lost. It runs in the dispatcher, after
// all events of that link.
func (s *sess) breakWatches() {
	s.mu.Lock()
	var broken []*watcher
	for _, w := range s.watches {
		for _, sub := range w.subs {
			if sub.told {
				sub.told = false
				broken = append(broken, sub)
			}
		}
	}
	for _, b := range s.bells {
		for _, sub := range b.subs {
			if sub.told {
				sub.told = false
				broken = append(broken, sub)
			}
		}
	}
	s.mu.Unlock()
	s.deliver(broken, driver.Event{Kind: driver.Broken})
}

// deliver tells watchers, unless they have been canceled. It runs in the
// dispatcher.
func (s *sess) deliver(subs []*watcher, ev driver.Event) {
	for _, sub := range subs {
		s.mu.Lock()
		silent := sub.canceled || s.ctx.Err() != nil
		s.mu.Unlock()
		if !silent {
			sub.f(ev)
		}
	}
}

package zkbackend

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// bell is a folder that is watched for what comes and goes in it: that of a line,
// of its holders, or of its limit. A watch needs the folder, and ExistsW on one
// that is not there would leave a watch at the server for ever; so it is made, as
// a container, which the servers remove again when it has emptied. Then it is
// made again, for as long as somebody listens.
type bell struct {
	path string
	data bool // the folder is a line's: its data is watched too, which Write changes
	soon bool // who listens is in a hurry

	subs  []*watcher
	armed bool // the watches stand, on the present link
	busy  bool // they are being made there ...
	fired bool // ... and an event came meanwhile, perhaps theirs
	due   bool // Changed is to be told when they stand again
	known int32
}

// bellOf is the folder for an aspect of a line.
func (s *sess) bellOf(req driver.WatchRequest) *bell {
	lay, line := s.b.lay, req.Ref.Line
	switch req.Of {
	case driver.OfAdmitted:
		return &bell{path: lay.holders(line), soon: true}
	case driver.OfLimit:
		return &bell{path: lay.limit(line)}
	case driver.OfLine, driver.OfEntry:
	}
	return &bell{path: lay.dir(line), data: true}
}

// hear is Watch for an aspect of a line. The caller holds s.mu.
func (s *sess) hear(req driver.WatchRequest, f func(driver.Event)) (cancel func()) {
	b := s.bellOf(req)
	if old := s.bells[b.path]; old != nil {
		b = old
	} else {
		s.bells[b.path] = b
	}
	sub := &watcher{f: f, req: req}
	b.subs = append(b.subs, sub)
	if b.armed {
		s.out.post(func() { s.tellHung(b) })
	} else {
		s.hang(b)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		sub.canceled = true
		b.subs = slices.DeleteFunc(b.subs, func(o *watcher) bool { return o == sub })
		if !b.armed {
			s.takeDown(b)
		}
	}
}

// takeDown forgets a bell that nobody listens to, and that is not being hung. One
// that hangs stays for whoever comes next, until it rings. The caller holds s.mu.
func (s *sess) takeDown(b *bell) {
	if len(b.subs) == 0 && !b.busy && s.bells[b.path] == b {
		delete(s.bells, b.path)
	}
}

// rehang makes the watches anew, if somebody listens. The caller holds s.mu.
func (s *sess) rehang(b *bell) {
	if len(b.subs) > 0 {
		s.hang(b)
	} else {
		s.takeDown(b)
	}
}

// hang makes the watches of a bell, unless that is being done. The caller holds
// s.mu.
func (s *sess) hang(b *bell) {
	l, epoch := s.cur, s.epoch
	if l == nil || b.busy {
		return
	}
	b.busy = s.goes(func() {
		changes, err := once(s.ctx, s, l, b.watch)
		if errors.Is(err, zk.ErrNoNode) {
			if err = s.makeBell(b); err == nil {
				s.out.post(func() { s.hangAgain(b, epoch) })
				return
			}
		}
		switch {
		case err == nil:
			s.out.post(func() { s.isHung(b, epoch, changes) })
		case hasCode(err, codeThrottled):
			driver.Sleep(s.ctx, s.b.clock, throttled)
			s.out.post(func() { s.hangAgain(b, epoch) })
		case outcomeOf(err) == refused, errors.Is(err, driver.ErrDenied), errors.Is(err, driver.ErrRefused):
			s.cfg.Logger.Warn("zookeeper: cannot watch a folder", "path", b.path, "err", err)
		}
	})
}

// makeBell makes the folder of a bell. The servers remove a container that is empty
// only if something has been in it, and who listens for asks, or looks who leads,
// may do so in vain, for one lock after another: so of such a folder they are made
// to believe it. It then goes at their next round, once a minute, and is made again
// for as long as somebody listens.
func (s *sess) makeBell(b *bell) error {
	err := s.makeFolder(s.ctx, b.path)
	if err != nil || !b.data {
		return err
	}
	return s.makeUsed(s.ctx, b.path)
}

// makeUsed puts a node into an empty folder and takes it out again, so that the
// servers remove the folder if nothing else comes.
func (s *sess) makeUsed(ctx context.Context, dir string) error {
	mote := dir + "/" + random(guidLen/2) // no entry has such a name
	_, err := s.transact(ctx, transaction{
		{role: toCreate, op: &zk.CreateRequest{Path: mote, Data: []byte{}, Acl: s.acl()}},
		{role: toDelete, op: &zk.DeleteRequest{Path: mote, Version: -1}},
	})
	switch {
	case errors.Is(err, zk.ErrNoNode): // removed already: it is made again
		return nil
	case outcomeOf(err) == refused:
		s.cfg.Logger.Warn("zookeeper: an empty folder may stay", "path", dir, "err", err)
		return nil
	}
	return err
}

// watch makes the watches on a connection, and returns how often the folder has
// changed in its life, in a way that each event counts for one at least.
func (b *bell) watch(c *zk.Conn) (int32, error) {
	if b.data {
		if _, _, err := getWatched(c, b.path); err != nil {
			return 0, err
		}
	}
	_, stat, err := childrenWatched(c, b.path)
	if err != nil {
		return 0, err
	}
	return stat.Cversion, nil
}

// hangAgain makes watches anew for which the folder was missing, or the server
// had no time. It runs in the dispatcher.
func (s *sess) hangAgain(b *bell, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch && s.bells[b.path] == b {
		b.busy = false
		s.rehang(b)
	}
}

// isHung takes in that the watches stand. It runs in the dispatcher.
func (s *sess) isHung(b *bell, epoch int, changes int32) {
	s.mu.Lock()
	if s.epoch != epoch || s.bells[b.path] != b {
		s.mu.Unlock()
		return
	}
	fired := b.fired // then the watches are spent, perhaps
	b.busy, b.armed, b.fired = false, !fired, false
	var late []*watcher
	if b.due || b.soon && changes != b.known {
		late = b.told()
	}
	// On a line that is never at rest the watches may be spent each time before
	// this is known: then it is told each time that there was more.
	b.due, b.known = fired, changes
	if fired {
		s.rehang(b)
	}
	news := b.untold()
	s.mu.Unlock()
	s.deliver(late, driver.Event{Kind: driver.Changed})
	s.deliver(news, driver.Event{Kind: driver.Armed})
}

// told are those who know that the watches stand. The caller holds sess.mu.
func (b *bell) told() (subs []*watcher) {
	for _, sub := range b.subs {
		if sub.told {
			subs = append(subs, sub)
		}
	}
	return subs
}

// untold are those who do not know it yet, and are told now. The caller holds
// sess.mu.
func (b *bell) untold() (subs []*watcher) {
	for _, sub := range b.subs {
		if !sub.told {
			sub.told = true
			subs = append(subs, sub)
		}
	}
	return subs
}

// tellHung tells a new one that the watches stand, if they do. It runs in the
// dispatcher.
func (s *sess) tellHung(b *bell) {
	s.mu.Lock()
	var news []*watcher
	if b.armed {
		news = b.untold()
	}
	s.mu.Unlock()
	s.deliver(news, driver.Event{Kind: driver.Armed})
}

// rings takes in that something has happened in a folder. Until the watches stand
// again more may happen, unseen. So it is told then, when whoever looks misses
// nothing; or, where there is a hurry, at once, and then again if there was more.
// It runs in the dispatcher.
func (s *sess) rings(b *bell) {
	s.mu.Lock()
	if s.bells[b.path] != b {
		s.mu.Unlock()
		return
	}
	var now []*watcher
	if b.soon {
		b.known++
		now = b.told()
	} else {
		b.due = true
	}
	b.armed, b.fired = false, b.busy
	s.rehang(b)
	s.mu.Unlock()
	s.deliver(now, driver.Event{Kind: driver.Changed})
}

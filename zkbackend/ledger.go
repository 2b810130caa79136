package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// A line's ledger is a node whose data is the name of who holds, and how the hold
// before ended. There is no node while it is clean. So a join enters its name by
// a plain create in its transaction, which is refused if another name is there:
// nothing has to be read before, and no version can be the same again by chance.
//
// A name that a join has entered has version 0, one of Enter has more. The first
// may be that of a waiter, and is struck out by whoever believes that it is his:
//
//   - A waiter that strikes out another's name of version 0, because his own was
//     overwritten and struck out meanwhile, takes nothing that matters. It is not
//     that of a holder: who joins with nobody ahead is not ahead of this waiter,
//     or was there before him, and then his own create was refused. And who waits
//     calls Enter when his turn comes.
//   - A name of Enter is that of the holder, which nobody else overwrites or
//     strikes out while his entry lives.
type ledgerLine struct {
	guid string
	past driver.Past
}

// The words for how the hold before ended.
const (
	wordClean = "clean"
	wordDied  = "died"
)

func (l ledgerLine) bytes() []byte {
	past := wordClean
	if l.past == driver.PastDied {
		past = wordDied
	}
	return []byte(l.guid + " " + past)
}

// readLedgerLine reads what is in a ledger. Whatever it is, it is a name.
func readLedgerLine(data []byte) ledgerLine {
	guid, past, _ := strings.Cut(string(data), " ")
	switch past {
	case wordClean:
		return ledgerLine{guid, driver.PastClean}
	case wordDied:
		return ledgerLine{guid, driver.PastDied}
	}
	return ledgerLine{guid, driver.PastUnknown}
}

// ledger is what was read.
type ledger struct {
	ledgerLine
	there   bool
	version int32
	zxid    int64 // the transaction that created it
}

// readLedger reads the ledger of a line.
func (s *sess) readLedger(ctx context.Context, line string) (ledger, error) {
	path := s.b.lay.ledger(line)
	data, stat, err := s.content(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return ledger{}, nil
	case err != nil:
		return ledger{}, translate(err, "READ", path)
	}
	return ledger{readLedgerLine(data), true, stat.Version, stat.Czxid}, nil
}

// newestLedger reads it as it is now.
func (s *sess) newestLedger(ctx context.Context, line string) (ledger, error) {
	if err := s.catchUp(ctx); err != nil {
		return ledger{}, err
	}
	return s.readLedger(ctx, line)
}

// Enter implements driver.Session.
func (s *sess) Enter(ctx context.Context, ref driver.Ref) (driver.Past, error) {
	past, err := s.enter(ctx, ref)
	if err != nil {
		return driver.PastUnknown, fmt.Errorf("zookeeper: enter the ledger of %q: %w", ref.Line, err)
	}
	return past, nil
}

func (s *sess) enter(ctx context.Context, ref driver.Ref) (driver.Past, error) {
	n, ok := refNode(ref)
	if !ok || n.guid == "" {
		return driver.PastUnknown, driver.ErrGone
	}
	known, _ := s.noted(mark{ref.Line, n.guid})
	s.note(mark{ref.Line, n.guid}, func(k *notes) { k.enters = true })
	var l ledger // believed to be clean, which is right where everybody gives back
	if known.entered || known.enters {
		var err error
		if l, err = s.newestLedger(ctx, ref.Line); err != nil {
			return driver.PastUnknown, err
		}
	}
	for {
		if l.there && l.guid == n.guid {
			if stat, err := s.exists(ctx, ref.Key); err != nil {
				return driver.PastUnknown, err
			} else if stat == nil {
				return driver.PastUnknown, driver.ErrGone
			}
			s.enteredAs(ref, n, l.version)
			return l.past, nil
		}
		past, again, err := s.enterOver(ctx, ref, n, l)
		if err != nil || !again {
			return past, err
		}
		if l, err = s.newestLedger(ctx, ref.Line); err != nil {
			return driver.PastUnknown, err
		}
	}
}

func (s *sess) enteredAs(ref driver.Ref, n node, version int32) {
	s.note(mark{ref.Line, n.guid}, func(k *notes) { k.entered, k.enters, k.ledger = true, false, version })
}

// enterOver writes the name where another was read, or none. It says again if
// that has changed, or may have.
func (s *sess) enterOver(ctx context.Context, ref driver.Ref, n node, l ledger) (past driver.Past, again bool, err error) {
	past = driver.PastClean
	if l.there {
		if past, err = s.pastOf(ctx, ref, n, l); err != nil {
			return past, false, err
		}
	}
	path, data := s.b.lay.ledger(ref.Line), ledgerLine{n.guid, past}.bytes()
	t := transaction{{toProbe, 0, &zk.CheckVersionRequest{Path: ref.Key, Version: -1}}}
	if !l.there {
		t = append(t, step{toEnter, 0, &zk.CreateRequest{Path: path, Data: data, Acl: s.acl()}})
		l.version = 0
	}
	t = append(t, step{toEnter, 0, &zk.SetDataRequest{Path: path, Data: data, Version: l.version}})
	o, err := s.transact(ctx, t)
	switch {
	case err == nil:
		s.enteredAs(ref, n, l.version+1)
		return past, false, nil
	case errors.Is(err, zk.ErrNoNode) && o.failed.role == toProbe:
		return past, false, driver.ErrGone
	case errors.Is(err, zk.ErrNoNode):
		return past, true, s.folderOf(ctx, path)
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion):
		return past, true, nil
	}
	return past, false, translate(err, "WRITE", path)
}

// pastOf says what another's name in the ledger means to the holder. One that a
// join has entered behind him never held, and was written over a clean ledger.
func (s *sess) pastOf(ctx context.Context, ref driver.Ref, n node, l ledger) (driver.Past, error) {
	if l.version > 0 {
		return driver.PastDied, nil
	}
	known, _ := s.noted(mark{ref.Line, n.guid})
	if known.token == 0 {
		stat, err := s.exists(ctx, ref.Key)
		switch {
		case err != nil:
			return driver.PastUnknown, err
		case stat == nil:
			return driver.PastUnknown, driver.ErrGone
		}
		known.token = stat.Czxid
	}
	if l.zxid > known.token {
		return driver.PastClean, nil
	}
	return driver.PastDied, nil
}

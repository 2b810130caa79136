package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// Admit implements driver.Session.
//
// It is one transaction, which writes the entry, for those who watch that, and
// puts a node of its name among the holders. Who is in line, and in which order,
// is told by the line's folder alone. The holders are a bell: who watches that
// folder is told when one of them goes, whichever it is.
func (s *sess) Admit(ctx context.Context, ref driver.Ref) error {
	if err := s.admit(ctx, ref); err != nil {
		return fmt.Errorf("zookeeper: admit to %q: %w", ref.Line, err)
	}
	return nil
}

func (s *sess) admit(ctx context.Context, ref driver.Ref) error {
	n, ok := refNode(ref)
	if !ok || n.guid == "" {
		return driver.ErrGone
	}
	if n.sealed {
		// A change of it would be taken for word of a hold that was given back.
		return fmt.Errorf("%w: %q is not in a queue with a limit", driver.ErrRefused, n.name)
	}
	known, err := s.writer(ctx, ref, n)
	if err != nil {
		return err
	}
	name := n.name
	if tried := len(known.bells); tried > 0 {
		name = known.bells[tried-1]
	}
	for {
		s.hasBell(ref, n, name)
		bell := s.b.lay.holders(ref.Line) + "/" + name
		o, err := s.transact(ctx, transaction{
			{toChange, 0, &zk.SetDataRequest{Path: ref.Key, Data: addition{Admitted: true}.onto(known.meta), Version: -1}},
			{toTell, 0, &zk.CreateRequest{Path: bell, Data: []byte{}, Acl: s.acl(), Flags: zk.FlagEphemeral}},
		})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNodeExists):
			stat, err := s.exists(ctx, bell)
			if err != nil || stat != nil && stat.EphemeralOwner == s.who.id {
				return err
			}
			// Somebody else's would not go with this entry, and nobody would be told.
			name = n.name + anotherBell + random(guidLen/2)
		case errors.Is(err, zk.ErrNoNode) && o.failed.role == toChange:
			return driver.ErrGone
		case errors.Is(err, zk.ErrNoNode):
			if err := s.folderOf(ctx, bell); err != nil {
				return err
			}
		case o.failed.role == toChange:
			return translate(err, "WRITE", ref.Key)
		default:
			return translate(err, "CREATE", bell)
		}
	}
}

// anotherBell stands between an entry's name and what makes its bell's another one.
const anotherBell = ";"

// hasBell notes that there may be a node of that name for an entry.
func (s *sess) hasBell(ref driver.Ref, n node, name string) {
	s.note(mark{ref.Line, n.guid}, func(k *notes) {
		if !slices.Contains(k.bells, name) {
			k.bells = append(k.bells, name)
		}
	})
}

// Claim implements driver.Session. A number is a node whose data is the entry's
// name.
func (s *sess) Claim(ctx context.Context, ref driver.Ref) (driver.Number, error) {
	slot, err := s.claim(ctx, ref)
	if err != nil {
		return driver.Number{}, fmt.Errorf("zookeeper: claim a slot of %q: %w", ref.Line, err)
	}
	return slot, nil
}

func (s *sess) claim(ctx context.Context, ref driver.Ref) (driver.Number, error) {
	n, ok := refNode(ref)
	if !ok || n.guid == "" {
		return driver.Number{}, driver.ErrGone
	}
	known, _ := s.noted(mark{ref.Line, n.guid})
	has := driver.Number{N: known.slot, Token: known.slotted}
	var err error
	if known.claims && known.slot < 0 {
		if has, err = s.findSlot(ctx, ref); err != nil {
			return has, err
		}
	}
	if has.N >= 0 {
		s.claimed(ref, n, has, known.claims)
		stat, err := s.exists(ctx, ref.Key)
		if err == nil && stat == nil {
			err = driver.ErrGone
		}
		return has, err
	}
	s.note(mark{ref.Line, n.guid}, func(k *notes) { k.claims = true })
	dir := s.b.lay.slots(ref.Line)
	unsure := known.claims
	for {
		names, err := s.newest(ctx, dir)
		if err != nil {
			return driver.Number{}, err
		}
		slot := lowest(names)
		o, err := s.transact(ctx, transaction{
			{toProbe, 0, &zk.CheckVersionRequest{Path: ref.Key, Version: -1}},
			{toCreate, 0, &zk.CreateRequest{
				Path: dir + "/" + strconv.Itoa(slot), Data: []byte(n.name), Acl: s.acl(), Flags: zk.FlagEphemeral,
			}},
			// The folder's Stat tells when that was.
			{toCount, 0, &zk.SetDataRequest{Path: dir, Data: []byte{}, Version: -1}},
		}, func() { unsure = true })
		got := driver.Number{N: slot}
		if err == nil && o.answers[2].Stat != nil {
			got.Token = o.answers[2].Stat.Mzxid
		}
		if unsure && errors.Is(err, zk.ErrNodeExists) {
			if got, err = s.findSlot(ctx, ref); err == nil && got.N < 0 {
				continue // it is another's
			}
		}
		switch {
		case err == nil:
			s.claimed(ref, n, got, unsure)
			return got, nil
		case errors.Is(err, zk.ErrNodeExists): // somebody was faster
		case errors.Is(err, zk.ErrNoNode) && o.failed.role == toProbe:
			return got, driver.ErrGone
		case errors.Is(err, zk.ErrNoNode):
			if err := s.makeFolder(ctx, dir); err != nil {
				return got, err
			}
		default:
			return got, translate(err, "CREATE", dir)
		}
	}
}

// claimed notes the number of an entry. If an attempt was not answered it is unsure
// whether that takes another number later.
func (s *sess) claimed(ref driver.Ref, n node, got driver.Number, unsure bool) {
	s.note(mark{ref.Line, n.guid}, func(k *notes) { k.slot, k.slotted, k.claims = got.N, got.Token, unsure })
}

// lowest is the lowest number, from 0 on, that is not taken.
func lowest(taken []string) int {
	set := make(map[string]bool, len(taken))
	for _, t := range taken {
		set[t] = true
	}
	n := 0
	for set[strconv.Itoa(n)] {
		n++
	}
	return n
}

// findSlot looks for the number that an entry may have; -1 if it has none, and
// will have none by what was sent before.
func (s *sess) findSlot(ctx context.Context, ref driver.Ref) (driver.Number, error) {
	none := driver.Number{N: -1}
	dir := s.b.lay.slots(ref.Line)
	names, err := s.newest(ctx, dir)
	if err != nil {
		return none, err
	}
	_, entry := split(ref.Key)
	found := make([]int64, len(names))
	err = each(ctx, names, func(ctx context.Context, i int) error {
		data, stat, err := s.content(ctx, dir+"/"+names[i])
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return translate(err, "READ", dir+"/"+names[i])
		}
		if err == nil && string(data) == entry {
			found[i] = stat.Czxid
		}
		return nil
	})
	if err != nil {
		return none, err
	}
	for i, name := range names {
		if slot, err := strconv.Atoi(name); err == nil && found[i] != 0 {
			return driver.Number{N: slot, Token: found[i]}, nil
		}
	}
	return none, nil
}

package zkbackend

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// reader makes Views of a queue.
type reader struct {
	s      *zkSession
	queue  string
	folder string
}

func newReader(s *zkSession, queue string) reader {
	return reader{s: s, queue: queue, folder: s.b.lay.folder(queue)}
}

// read is Read. It takes one round trip for the entries, the holders and the records, in
// this order: a limit that was lowered before an entry left must not be missed.
func (r reader) read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	var (
		b                  batch
		names              []entryName
		admitted, detailed = make(map[string]bool), make(map[string]bool)
		records            = make(map[string]driver.Record)
		further            batch // records whose names are not known yet
	)
	take := func(k recordKey) func(driver.Record) {
		return func(rec driver.Record) {
			if rec.Version != 0 {
				records[k.record] = rec
			}
		}
	}
	b.addFolder(r.folder, func(a conn.Answer) {
		names = parseNames(a.Children)
		r.s.checkProtocols(r.queue, names)
	})
	if req.Marks {
		b.addFolder(r.s.b.lay.holders(r.queue), into(admitted))
	}
	if req.Detail {
		b.add(conn.Children(r.s.b.lay.details(r.queue)), func(a conn.Answer) error {
			into(detailed)(a) // without the permission to read them there are none
			return nil
		})
	}
	for _, name := range req.Records {
		if !strings.HasSuffix(name, "/") {
			k := recordKey{r.queue, name}
			b.addRecord(r.s, k, take(k))
			continue
		}
		b.addFolder(r.s.b.lay.records(r.queue), func(a conn.Answer) {
			for _, c := range a.Children {
				if rec, ok := recordNamed(c); ok && strings.HasPrefix(rec, name) {
					k := recordKey{r.queue, rec}
					further.addRecord(r.s, k, take(k))
				}
			}
		})
	}
	if err := cmp.Or(b.run(ctx, r.s, req.Fresh), further.run(ctx, r.s, false)); err != nil {
		return driver.View{}, err
	}
	v := r.view(names, req)
	v.Records = records
	var err error
	if req.Detail {
		err = r.describe(ctx, v.Entries, detailed)
	} else {
		err = r.look(ctx, v.Entries, names, req.Marks)
	}
	for i := range v.Entries {
		n, _ := nameOf(v.Entries[i].Ref)
		if !req.Marks {
			v.Entries[i].Marks = 0
		} else if admitted[n.guid] {
			v.Entries[i].Marks |= driver.MarkAdmitted
		}
	}
	return v, err
}

// into returns what takes the children of a folder into a set.
func into(set map[string]bool) func(conn.Answer) {
	return func(a conn.Answer) {
		for _, c := range a.Children {
			set[c] = true
		}
	}
}

// view returns the part of a queue that a request is for.
func (r reader) view(names []entryName, req driver.ReadRequest) driver.View {
	if req.Upto == 0 {
		n := len(names)
		if req.Nearest > 0 {
			n = min(n, req.Nearest)
		}
		return driver.View{Entries: r.entries(names[:n]), Complete: n == len(names), Count: len(names)}
	}
	start, end := 0, behind(names, req.Upto)
	if req.Nearest > 0 {
		start = max(0, min(behind(names, cmp.Or(req.From, req.Upto)-1), end)-req.Nearest)
	}
	return driver.View{Entries: r.entries(names[start:end]), Complete: start == 0, Count: end}
}

// behind returns the index of the first name with a higher place.
func behind(names []entryName, place int64) int {
	i, _ := slices.BinarySearchFunc(names, place, func(n entryName, p int64) int {
		return cmp.Or(cmp.Compare(n.place(), p), -1)
	})
	return i
}

func (r reader) entries(names []entryName) []driver.Entry {
	all := make([]driver.Entry, 0, len(names))
	for _, n := range names {
		all = append(all, n.entry(r.queue, r.folder))
	}
	return all
}

// atOnce is how many nodes are asked for together.
const atOnce = 128

// describe reads what the nodes of entries show. Those that are gone meanwhile keep what
// their names show: they were in the queue when that was read.
func (r reader) describe(ctx context.Context, entries []driver.Entry, detailed map[string]bool) error {
	for chunk := range slices.Chunk(entries, atOnce) {
		var b, hidden batch
		for i := range chunk {
			e := &chunk[i]
			n, _ := nameOf(e.Ref)
			b.add(conn.Get(e.Key), func(a conn.Answer) error {
				if errors.Is(a.Err, zk.ErrNoAuth) { // not its data, then
					hidden.add(conn.Exists(e.Key), func(a conn.Answer) error { return r.describeOne(e, n, a) })
					return nil
				}
				a.Data = append([]byte{}, a.Data...) // nil would mean that the answer did not contain it
				return r.describeOne(e, n, a)
			})
			if detailed[n.guid] {
				b.add(conn.Get(r.s.b.lay.details(r.queue)+"/"+n.guid), func(a conn.Answer) error {
					e.Detail = a.Data
					return nil
				})
			}
		}
		if err := cmp.Or(b.run(ctx, r.s, false), hidden.run(ctx, r.s, false)); err != nil {
			return err
		}
	}
	return nil
}

func (r reader) describeOne(e *driver.Entry, n entryName, a conn.Answer) error {
	switch {
	case isMissing(a.Err):
		return nil
	case a.Err != nil:
		return translate(a.Err, "READ", e.Key)
	}
	r.s.own.sight(r.queue, n, a.Stat)
	var token int64
	e.Data, e.Marks, token = decodeEntry(n, a.Data, a.Stat.Version)
	e.Token = cmp.Or(token, a.Stat.Czxid)
	if e.Foreign {
		r.s.nodes.put(e.Key, a.Stat.Czxid, nil)
	}
	if e.Unleased = !hasSession(a.Stat.EphemeralOwner); !e.Unleased {
		e.Session = conn.IDOf(a.Stat.EphemeralOwner)
	}
	return nil
}

// hasSession reports whether a node of that owner ends with a session. 0 is a persistent
// node, and containers and nodes with a TTL of their own have numbers that no session has
// (EphemeralType of ZooKeeper).
func hasSession(owner int64) bool {
	const container, withTTL = -1 << 63, 0xff
	return owner != 0 && owner != container && uint64(owner)>>56 != withTTL //nolint:gosec // the number of a session is opaque bits
}

// look reads what the names do not show: of foreign entries, whether they have a session,
// or would stay for ever; and with marks, whether a writer became a reader. Only an entry
// that was first gets that mark, so it is the first of its queue.
func (r reader) look(ctx context.Context, entries []driver.Entry, names []entryName, marks bool) error {
	var b batch
	for i := range entries {
		e := &entries[i]
		switch first := marks && e.Place == names[0].place(); {
		case first && names[0].downgrades():
			b.add(conn.Get(e.Key), func(a conn.Answer) error {
				_, e.Marks, _ = decodeEntry(names[0], a.Data, a.Stat.Version)
				return nil
			})
		case e.Foreign:
			leased, known := r.s.leased.get(e.Key)
			if e.Unleased = known && !leased; known {
				continue
			}
			b.add(conn.Exists(e.Key), func(a conn.Answer) error {
				if a.Err == nil { // of one that is gone the end will be reported
					e.Unleased = !hasSession(a.Stat.EphemeralOwner)
					r.s.leased.put(e.Key, !e.Unleased, nil)
				}
				return nil
			})
		}
	}
	return b.run(ctx, r.s, false)
}

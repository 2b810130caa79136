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

// A listing of a queue's folder has all its entries, at one moment, with what their names contain:
// place, mode, weight, and whether they are of this library. That is a View, and mostly it is enough.
// What the names do not show costs reads of the nodes, which follow the listing:
//
//	for a waiter     whether a foreign entry has a session, once for each, and whether the first
//	                 entry is a writer that became a reader: inspect
//	for people       data, token, owner and detail of each entry: describe
//
// An entry whose node is gone by then stays in the View, because it was in the queue at the moment of
// the listing; its watch reports the end.

// reader makes Views of a queue. It has no state, so it costs nothing to make one for each call.
type reader struct {
	s      *zkSession
	queue  string
	folder string
}

func newReader(s *zkSession, queue string) reader {
	return reader{s: s, queue: queue, folder: s.b.lay.folder(queue)}
}

// read is Read. One round trip reads the entries, the holders and the records, in this order:
// a View must show a limit that was lowered before an entry left. Two more can follow: for records
// whose names end in a slash, which are found by a listing, and for nodes of entries.
func (r reader) read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	var (
		b                  batch
		names              []entryName
		admitted, detailed = make(map[string]bool), make(map[string]bool)
		records            = make(map[string]driver.Record)
		further            batch // of records whose names the first batch finds
	)
	add := func(b *batch, name string) {
		b.addRecord(r.s, recordKey{r.queue, name}, func(rec driver.Record) {
			if rec.Version != 0 {
				records[name] = rec
			}
		})
	}
	b.addFolder(r.folder, func(a conn.Answer) { names = parseNames(a.Children) })
	if req.Marks {
		b.addFolder(r.s.b.lay.holders(r.queue), into(admitted))
	}
	if req.Detail {
		b.add(conn.Children(r.s.b.lay.details(r.queue)), func(a conn.Answer) error {
			into(detailed)(a) // none, without the permission to list them
			return nil
		})
	}
	for _, name := range req.Records {
		if !strings.HasSuffix(name, "/") {
			add(&b, name)
			continue
		}
		b.addFolder(r.s.b.lay.records(r.queue), func(a conn.Answer) {
			for _, c := range a.Children {
				rec, ok := recordNamed(c)
				if ok && strings.HasPrefix(rec, name) {
					add(&further, rec)
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
		err = r.inspect(ctx, v.Entries, names, req.Marks)
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

// into returns a function that adds the children of a folder to a set.
func into(set map[string]bool) func(conn.Answer) {
	return func(a conn.Answer) {
		for _, c := range a.Children {
			set[c] = true
		}
	}
}

// view returns the part of a queue that a request asks for: a part of names, which are all of the
// queue, in order.
//
//	Upto   Nearest   the part
//	0      0         all
//	0      n         the first n
//	p      0         those up to p
//	p      n         those from From up to p, and n before From
//
// Curator's writer and its reader have one place if it holds both. The part begins with both then, or
// the picture of the queue would lack the writer without a gap.
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
		for start > 0 && start < end && names[start-1].place() == names[start].place() {
			start--
		}
	}
	return driver.View{Entries: r.entries(names[start:end]), Complete: start == 0, Count: end}
}

// behind returns the index of the first name with a place above place, among names in order.
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

// atOnce is how many nodes a batch reads at most. More would hold up the other requests of the session,
// which share its connection. It is also the longest queue that a join lists.
const atOnce = 128

// describe reads the nodes of entries, and the details of those that are in detailed. An entry that is
// gone by now keeps what its name shows, because it was in the queue when that was listed. So does one
// that the session may not read: the queue needs no more than the name.
func (r reader) describe(ctx context.Context, entries []driver.Entry, detailed map[string]bool) error {
	for chunk := range slices.Chunk(entries, atOnce) {
		var b, hidden batch
		for i := range chunk {
			e := &chunk[i]
			n, _ := nameOf(e.Ref)
			b.add(conn.Get(e.Key), func(a conn.Answer) error {
				if errors.Is(a.Err, zk.ErrNoAuth) { // servers before CVE-2024-23944 answer Exists all the same
					hidden.add(conn.Exists(e.Key), func(a conn.Answer) error { return r.describeOne(e, n, a) })
					return nil
				}
				a.Data = append([]byte{}, a.Data...) // nil would mean that it was not read
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

// describeOne takes in the node of an entry. The owner of a node that ends with no session is 0, also of
// a container and of a node with a TTL (DataNode.copyStat of ZooKeeper). The highest byte of a session's
// number is the number of its server, which can be 255, so no byte of it shows what kind of node it is.
//
// The token of an entry is its czxid, unless a downgrade has made the node anew: then it is in the data.
func (r reader) describeOne(e *driver.Entry, n entryName, a conn.Answer) error {
	switch {
	case isMissing(a.Err):
		return nil
	case errors.Is(a.Err, zk.ErrNoAuth):
		e.Unreadable = true
		return nil
	case a.Err != nil:
		return translate(a.Err, "READ", e.Key)
	}
	r.s.own.onRead(r.queue, n, a.Stat)
	var token int64
	e.Data, e.Marks, token = decodeEntry(n, a.Data, a.Stat.Version)
	e.Token = cmp.Or(token, a.Stat.Czxid)
	if !n.unique() {
		r.s.nodes.put(e.Key, a.Stat.Czxid, nil)
	}
	e.Unleased = a.Stat.EphemeralOwner == 0
	if !e.Unleased {
		e.Session = conn.IDOf(a.Stat.EphemeralOwner)
	}
	return nil
}

// inspect reads what the names do not show: whether a foreign entry has a session, and, with marks,
// whether the first entry of the queue is a writer that became a reader. Only an entry that was first
// gets that mark, and it is the first as long as it exists. names are all of the queue, in order; they
// are needed with marks only.
//
// Whether a foreign entry has a session does not change while it lives, so it is read once for each:
//
//	the answer   the entry has a session                               remembered
//	found        if its owner is not 0                                 yes
//	NoAuth       counts as true: the next read would not learn more    yes
//	NoNode       stays as it is: its watch reports that it is gone     no
func (r reader) inspect(ctx context.Context, entries []driver.Entry, names []entryName, marks bool) error {
	var b batch
	for i := range entries {
		e := &entries[i]
		first := marks && e.Place == names[0].place()
		switch {
		case first && names[0].downgrades():
			b.add(conn.Get(e.Key), func(a conn.Answer) error {
				_, e.Marks, _ = decodeEntry(names[0], a.Data, a.Stat.Version)
				return nil
			})
		case e.Foreign:
			leased, known := r.s.leased.get(e.Key)
			e.Unleased = known && !leased
			if known {
				continue
			}
			b.add(conn.Exists(e.Key), func(a conn.Answer) error {
				switch {
				case a.Err == nil:
					e.Unleased = a.Stat.EphemeralOwner == 0
					r.s.leased.put(e.Key, !e.Unleased, nil)
				case errors.Is(a.Err, zk.ErrNoAuth):
					r.s.leased.put(e.Key, true, nil)
				}
				return nil
			})
		}
	}
	return b.run(ctx, r.s, false)
}

// batch is reads that are sent together, with no other request of the session between them, and carried
// out in order. It costs one round trip. The zero batch is empty, and costs none.
type batch struct {
	reqs []conn.Request
	take []func(conn.Answer) error // one for each of reqs
}

// add adds a read, and the function that gets the answer.
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

// run sends the reads, and calls the functions in order until one returns an error. With fresh
// the answers are not older than the call: a Sync goes first, unless the server is standalone. Those
// of the leader itself may be, by the time that it takes to carry out a commit.
func (b *batch) run(ctx context.Context, s *zkSession, fresh bool) error {
	reqs := b.reqs
	if len(reqs) == 0 {
		return nil
	}
	if fresh && !s.conn.Standalone() {
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

package zkbackend

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
)

// What belongs to a line and is no entry lies beside it, not in its folder:
// Curator sorts whatever it finds there, and go-zookeeper's Lock fails on it.
//
//	<root>/%beside/<name>/limit/<n>         the limit of a semaphore
//	<root>/%beside/<name>/holders/<entry>   an entry that was admitted; a bell. If that
//	                                        node is somebody else's: <entry>;<random>
//	<root>/%beside/<name>/slot/<n>          the number of an entry, which is its data
//	<root>/%beside/<name>/meta/<guid>       what an entry with a value says of itself
//	<root>/%beside/<name>/held/<guid>-<ms>  since when an entry holds
//	<root>/%beside/<name>/ledger            who holds; none if the last gave back
//	<root>/%beside/<name>/done              which work is done
//	<root>/%beside/<name>/asks/line/        those who ask that somebody yields
//	<root>/%beside/<name>/asks/meta/        what they say of themselves
//
// The name is one part of the path there, so that names in names do not meet. No
// user's name is ever written %beside: escape makes capital digits.
const besideLines = "/%beside/"

func (l layout) beside(line string) string {
	if of, asks := driver.AskedLine(line); asks {
		return l.beside(of) + "/asks"
	}
	segs := strings.Split(line, "/")
	for i, seg := range segs {
		segs[i] = escape(seg)
	}
	return l.root + besideLines + strings.Join(segs, "%2F")
}

func (l layout) limit(line string) string   { return l.beside(line) + "/limit" }
func (l layout) holders(line string) string { return l.beside(line) + "/holders" }
func (l layout) slots(line string) string   { return l.beside(line) + "/slot" }
func (l layout) metas(line string) string   { return l.beside(line) + "/meta" }
func (l layout) grants(line string) string  { return l.beside(line) + "/held" }
func (l layout) ledger(line string) string  { return l.beside(line) + "/ledger" }
func (l layout) done(line string) string    { return l.beside(line) + "/done" }

// notes are what a session knows of an entry of its own. They are there from before
// the entry is made until it has gone: an entry of the session without notes is one
// that no caller knows, see debris.
type notes struct {
	meta    []byte // the stored form of what it says of itself
	token   int64
	valued  bool            // there is a node for meta
	shared  bool            // Share was called: a reader may be in its place
	bells   []string        // among the holders there may be these nodes, by Admit
	granted string          // the record of its grant, if one may have been made: a node's name
	slot    int             // the number that was claimed; -1: none
	slotted int64           // when: its token
	claims  bool            // an attempt of a Claim was not answered
	version int32           // of the value
	entered bool            // the ledger has its name ...
	ledger  int32           // ... in this version
	enters  bool            // an Enter was not answered
	leaving bool            // Leave has it in hand
	debris  <-chan struct{} // no caller knows it; closed when its deletion was tried
}

// mark is how an entry of ours is known before it has a number.
type mark struct{ line, guid string }

// noted returns what is known of an entry.
func (s *sess) noted(m mark) (n notes, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.mine[m]; p != nil {
		return *p, true
	}
	return notes{slot: -1}, false
}

// note has f change what is known of an entry, if that has not gone.
func (s *sess) note(m mark, f func(*notes)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.mine[m]; p != nil {
		f(p)
	}
}

// expect begins the notes of an entry that is about to be made.
func (s *sess) expect(m mark, n notes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mine[m] = &n
}

func (s *sess) forgetNotes(m mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mine, m)
}

// addition is what an entry says beside its Meta, in the same JSON.
type addition struct {
	Token    int64 `json:"token,omitempty"`    // of the entry whose place it took
	Admitted bool  `json:"admitted,omitempty"` // see Admit
}

// onto adds to the stored form of a Meta, which is an object and not empty.
func (a addition) onto(meta []byte) []byte {
	b, err := json.Marshal(a)
	if err != nil || len(b) == len("{}") || len(meta) <= len("{}") || meta[len(meta)-1] != '}' {
		return meta
	}
	joined := append([]byte(nil), meta[:len(meta)-1]...)
	joined = append(joined, ',')
	return append(joined, b[1:]...)
}

// readAddition reads what was added; nothing if it is not ours or broken.
func readAddition(data []byte) (a addition) {
	if _, ok := driver.DecodeMeta(data); !ok || json.Unmarshal(data, &a) != nil {
		return addition{}
	}
	return a
}

// folderOf makes the folder of a node.
func (s *sess) folderOf(ctx context.Context, path string) error {
	dir, _ := split(path)
	return s.makeFolder(ctx, dir)
}

package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// checkEvery is how often a Tail checks whether the member has begun another file.
const checkEvery = 20 * time.Millisecond

// Tail follows the log of a member as it is written. A transaction that a majority of
// the members have written will stay, and clients are notified after that.
type Tail struct {
	m *Member

	mu      sync.Mutex
	file    *os.File // nil before the first
	log     log
	offset  int64
	last    int64
	checked time.Time
}

// Tail returns a tail that begins with the first transaction. The caller closes it.
func (m *Member) Tail() *Tail { return &Tail{m: m} }

// Last returns the last transaction that the member has written, 0 if there is none. It
// does not contact the member, which may be cut off, stopped or dead: then the ensemble
// may drop this transaction.
func (t *Tail) Last() (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		if err := t.read(); err != nil {
			return t.last, fmt.Errorf("zktest: tail of %q: %w", t.m.Name(), err)
		}
		more, err := t.next()
		if err != nil {
			return t.last, fmt.Errorf("zktest: tail of %q: %w", t.m.Name(), err)
		}
		if !more {
			return t.last, nil
		}
	}
}

// read reads what has been added to the file. It reads the head of the next record
// first: mostly there is none, and the padding at the end of the file is slow to read.
func (t *Tail) read() error {
	for t.file != nil {
		var head [recordHead]byte
		n, err := t.file.ReadAt(head[:], t.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		size := binary.BigEndian.Uint32(head[8:])
		if n < recordHead || size == 0 || size > maxRecord {
			return nil
		}
		chunk := make([]byte, max(recordHead+size+1, 16<<10))
		n, err = t.file.ReadAt(chunk, t.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		used, last := records(chunk[:n])
		if used == 0 {
			return nil
		}
		t.offset += int64(used)
		t.last = last
	}
	return nil
}

// records returns the length of the whole records at the beginning of a piece of a log,
// and the last transaction in them.
func records(piece []byte) (used int, last int64) {
	_ = eachRecordOf(bytes.NewReader(piece), func(txn []byte) error {
		head, _ := headOf(txn)
		used, last = used+recordHead+len(txn)+1, head.zxid
		return nil
	})
	return used, last
}

// next opens the next log file, if there is one. The member adds nothing more to the
// present file then: a member that restarts begins another.
func (t *Tail) next() (bool, error) {
	if time.Since(t.checked) < checkEvery {
		return false, nil
	}
	t.checked = time.Now()
	logs, err := logsOf(t.m.data())
	if err != nil {
		return false, err
	}
	for _, l := range logs {
		if t.file != nil && l.first <= t.log.first {
			continue
		}
		// The member may have written to the present file after the last read.
		if err := t.read(); err != nil {
			return false, err
		}
		return true, t.open(l)
	}
	return false, nil
}

func (t *Tail) open(l log) error {
	file, err := os.Open(l.name)
	if err != nil {
		return err
	}
	if t.file != nil {
		_ = t.file.Close()
	}
	t.file, t.log, t.offset, t.checked = file, l, int64(len(logMagic)), time.Time{}
	return nil
}

// Close ends the tail.
func (t *Tail) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	return err
}

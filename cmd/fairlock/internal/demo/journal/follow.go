package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// often is how long Follow waits before it looks again: less than a hand-off
// takes, so that who follows does not see a line that has long moved on.
const often = time.Millisecond / 2

// Follow calls f for every transaction of a server on its own, from the first
// on, each soon after it was logged. It returns nil when ctx ends, and an error
// if one is missing or has a form that is not known. Dir is the server's
// dataLogDir; before the server has started there may be nothing in it. The data
// given to f is f's to keep.
func Follow(ctx context.Context, dir string, f func(Txn)) error {
	r := reader{dir: filepath.Join(dir, "version-2")}
	defer r.close()
	timer := time.NewTimer(often)
	defer timer.Stop()
	for {
		t, ok, err := r.next()
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if ok {
			f(t)
			continue
		}
		timer.Reset(often)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// A log, log.<first zxid in hex>, is a header (magic, version, database) and
// records: an Adler-32 checksum, a length, the transaction, an end mark. Behind
// the last record are zeros, for the server makes its files larger than they
// have to be, or a part of what is being written. See
// org.apache.zookeeper.server.persistence.FileTxnLog.
const (
	fileHead    = 4 + 4 + 8
	recordHead  = 8 + 4
	endOfRecord = 'B'
	longest     = 8 << 20 // far more than a server takes
)

// reader reads one log after the other.
type reader struct {
	dir   string
	file  *os.File // nil before there is one
	first int64    // the zxid that the file begins with
	at    int64    // how far it was read
	zxid  int64    // of the last transaction
}

// next reads one transaction; false if there is no more yet.
func (r *reader) next() (Txn, bool, error) {
	t, ok, err := r.read()
	if ok || err != nil {
		return t, ok, err
	}
	newer, first, err := r.newer()
	if newer == "" || err != nil {
		return t, false, err
	}
	// The server was done with the old log before it made this one, but maybe
	// not before we looked.
	if t, ok, err = r.read(); ok || err != nil {
		return t, ok, err
	}
	file, err := os.Open(newer)
	if err != nil {
		return t, false, err
	}
	r.close()
	r.file, r.first, r.at = file, first, fileHead
	return r.read()
}

// read reads one transaction of this log; false if there is no more yet.
func (r *reader) read() (t Txn, ok bool, err error) {
	if r.file == nil {
		return t, false, nil
	}
	var head [recordHead]byte
	if ok, err := r.readAt(head[:], r.at); !ok {
		return t, false, err
	}
	sum, size := binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint32(head[8:])
	if size == 0 || size > longest {
		return t, false, nil
	}
	record := make([]byte, size+1)
	if ok, err := r.readAt(record, r.at+recordHead); !ok {
		return t, false, err
	}
	txn := record[:size]
	if record[size] != endOfRecord || uint64(adler32.Checksum(txn)) != sum {
		return t, false, nil
	}
	if t, err = parse(txn); err != nil {
		return t, false, err
	}
	if t.Zxid != r.zxid+1 {
		return t, false, fmt.Errorf("transaction %#x follows %#x: what is between them is missing", t.Zxid, r.zxid)
	}
	r.at += recordHead + int64(len(record))
	r.zxid = t.Zxid
	return t, true, nil
}

// readAt fills b; false if the file is shorter.
func (r *reader) readAt(b []byte, at int64) (bool, error) {
	_, err := r.file.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// newer returns the log behind the present one, "" if there is none.
func (r *reader) newer() (path string, first int64, err error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", 0, err
	}
	for _, e := range entries {
		hex, ok := strings.CutPrefix(e.Name(), "log.")
		zxid, err := strconv.ParseInt(hex, 16, 64)
		if ok && err == nil && zxid > r.first && (path == "" || zxid < first) {
			path, first = filepath.Join(r.dir, e.Name()), zxid
		}
	}
	return path, first, nil
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close() // it was only read
	}
}

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

// pollInterval is how long Follow waits before it reads the log again. It is less than a
// hand-off takes, so that the caller does not see an old queue.
const pollInterval = time.Millisecond / 2

// Follow calls f for every transaction of a standalone server, from the first on, each
// soon after it was logged. It returns nil when ctx ends, and an error if a transaction is
// missing or has an unknown form. Dir is the server's dataLogDir, which may be empty until
// the server has started. Follow does not use the data again that it gave to f.
func Follow(ctx context.Context, dir string, f func(Txn)) error {
	r := reader{dir: filepath.Join(dir, "version-2")}
	defer r.close()
	timer := time.NewTimer(pollInterval)
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
		timer.Reset(pollInterval)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// A log, log.<first zxid in hex>, is a header (magic, version, database) and records: an
// Adler-32 checksum, a length, the transaction, an end mark. After the last record come
// zeros, because the server makes its files larger than needed, or a part of the record
// that is being written. See org.apache.zookeeper.server.persistence.FileTxnLog.
const (
	fileHeader   = 4 + 4 + 8
	recordHeader = 8 + 4
	endOfRecord  = 'B'
	maxRecord    = 8 << 20 // bytes; far more than a server accepts
)

// reader reads the logs one after the other.
type reader struct {
	dir    string
	file   *os.File // the present log; nil before there is one
	first  int64    // the first zxid of the present log, from its name
	offset int64    // of the next record in the present log
	zxid   int64    // of the last transaction
}

// next reads the next transaction, and returns false if there is none yet.
func (r *reader) next() (Txn, bool, error) {
	t, ok, err := r.read()
	if ok || err != nil {
		return t, ok, err
	}
	newer, first, err := r.newer()
	if newer == "" || err != nil {
		return t, false, err
	}
	// The server had finished the old log before it created the newer one, but not
	// always before the read above.
	t, ok, err = r.read()
	if ok || err != nil {
		return t, ok, err
	}
	file, err := os.Open(newer)
	if err != nil {
		return t, false, err
	}
	r.close()
	r.file, r.first, r.offset = file, first, fileHeader
	return r.read()
}

// read reads the next transaction of the present log, and returns false if there is none
// yet.
func (r *reader) read() (t Txn, ok bool, err error) {
	if r.file == nil {
		return t, false, nil
	}
	var head [recordHeader]byte
	ok, err = r.readAt(head[:], r.offset)
	if !ok {
		return t, false, err
	}
	sum, size := binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint32(head[8:])
	if size == 0 || size > maxRecord {
		return t, false, nil
	}
	record := make([]byte, size+1)
	ok, err = r.readAt(record, r.offset+recordHeader)
	if !ok {
		return t, false, err
	}
	txn := record[:size]
	if record[size] != endOfRecord || uint64(adler32.Checksum(txn)) != sum {
		return t, false, nil
	}
	t, err = parse(txn)
	if err != nil {
		return t, false, err
	}
	if t.Zxid != r.zxid+1 {
		return t, false, fmt.Errorf("transaction %#x follows %#x: what is between them is missing", t.Zxid, r.zxid)
	}
	r.offset += recordHeader + int64(len(record))
	r.zxid = t.Zxid
	return t, true, nil
}

// readAt fills b, and returns false if the file is too short.
func (r *reader) readAt(b []byte, at int64) (bool, error) {
	_, err := r.file.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// newer returns the log after the present one, "" if there is none.
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

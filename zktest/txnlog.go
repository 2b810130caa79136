package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A transaction log, version-2/log.<first zxid in hex>, is a header and records: an
// Adler-32 checksum (8 bytes), a length (4), the transaction, an end mark. After the
// last record there may be zeros, because the server preallocates its files, or a
// record that was being written. A snapshot is called snapshot.<zxid>. See
// org.apache.zookeeper.server.persistence.FileTxnLog.
const (
	logMagic    = "ZKLG\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00" // with version and database
	recordHead  = 8 + 4
	endOfRecord = 'B'

	txnHead  = 8 + 4 + 8 + 8 + 4 // session, xid, zxid, time, kind
	txnZxid  = 8 + 4
	txnTime  = txnZxid + 8
	opCreate = 1
	opDelete = 2
)

// lastZxid returns the last transaction in a member's data.
func lastZxid(data string) (int64, error) {
	entries, err := os.ReadDir(data)
	if err != nil {
		return 0, err
	}
	var last int64
	for _, entry := range entries {
		kind, rest, _ := strings.Cut(entry.Name(), ".")
		hex, _, _ := strings.Cut(rest, ".") // snapshots may be compressed
		zxid, err := strconv.ParseUint(hex, 16, 64)
		switch {
		case err != nil:
		case kind == "snapshot":
			last = max(last, int64(zxid))
		case kind == "log":
			text, err := os.ReadFile(filepath.Join(data, entry.Name()))
			if err != nil {
				return 0, err
			}
			last = max(last, lastOfLog(text))
		}
	}
	return last, nil
}

// lastOfLog returns the last transaction of a log, or 0 if it has none.
func lastOfLog(text []byte) (zxid int64) {
	_ = eachRecord(bytes.NewReader(text), func(txn []byte) error { // the callback returns no error, so neither does eachRecord
		zxid = int64(binary.BigEndian.Uint64(txn[txnZxid:]))
		return nil
	})
	return zxid
}

// appendChild adds a log to a member's data. The log creates and deletes a child of
// path, and sets the number of creations below path.
func appendChild(data, path string, creations int32) error {
	last, err := lastZxid(data)
	if err != nil {
		return err
	}
	if int32(last) < 0 {
		return errors.New("too many transactions in one epoch")
	}
	child := fmt.Sprintf("%s/zktest-%x", strings.TrimSuffix(path, "/"), last)

	create := txn(last+1, opCreate)
	create = appendString(create, child)
	create = appendString(create, "")                 // no data
	create = binary.BigEndian.AppendUint32(create, 1) // one entry of an access control list
	create = binary.BigEndian.AppendUint32(create, 31)
	create = appendString(create, "world")
	create = appendString(create, "anyone")
	create = append(create, 0) // not ephemeral
	create = binary.BigEndian.AppendUint32(create, uint32(creations))

	text := appendRecord([]byte(logMagic), create)
	text = appendRecord(text, appendString(txn(last+2, opDelete), child))
	return os.WriteFile(filepath.Join(data, fmt.Sprintf("log.%x", last+1)), text, 0o600)
}

// txn returns the head of a transaction without a session.
func txn(zxid int64, kind uint32) []byte {
	b := make([]byte, txnZxid, 128)
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMilli()))
	return binary.BigEndian.AppendUint32(b, kind)
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

func appendRecord(b, txn []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(adler32.Checksum(txn)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(txn)))
	b = append(b, txn...)
	return append(b, endOfRecord)
}

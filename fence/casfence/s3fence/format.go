package s3fence

import (
	"bytes"
	"fmt"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/casfence"
	"github.com/fairlock/fairlock/session"
)

// The first line of a body, with the exclusive mark, the shared mark, and whether data was
// written. It has a version, and the marks "0" if there are none.
const (
	firstWord = "fairlock-fence/1 "
	firstLine = firstWord + "exclusive=%d shared=%d written=%t\n"
)

// Data returns the data in the body of an object, for a program that reads it without a token. If
// nothing was written, it returns nil.
func Data(body []byte) []byte { return parse(body).Data }

// format returns the body of an object.
func format(o casfence.Object) []byte {
	return append(fmt.Appendf(nil, firstLine, o.Marks.Exclusive, o.Marks.Shared, o.Written), o.Data...)
}

// parse returns what format has put into a body. Any other body is data without marks.
func parse(body []byte) casfence.Object {
	line, data, found := bytes.Cut(body, []byte("\n"))
	var exclusive, shared int64
	var written bool
	n, err := fmt.Sscanf(string(line)+"\n", firstLine, &exclusive, &shared, &written)
	if !found || err != nil || n != 3 || !bytes.HasPrefix(line, []byte(firstWord)) {
		return casfence.Object{Data: body, Written: true}
	}
	return casfence.Object{
		Data: data, Written: written,
		Marks: fence.Marks{Exclusive: session.Token(exclusive), Shared: session.Token(shared)},
	}
}

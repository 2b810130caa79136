package door

import (
	next "github.com/fairlock/fairlock/next/driver"
	"github.com/fairlock/fairlock/session/driver"
)

// MetaOf returns what the owner of an entry says of itself: in the entry's data, or,
// where that is for other programs, beside it, where the time of the grant is too.
func MetaOf(e *next.Entry) driver.Meta {
	if e.Foreign {
		return driver.Meta{}
	}
	meta, _ := driver.DecodeMeta(e.Detail)
	if !e.Valued {
		granted := meta.Granted
		meta, _ = driver.DecodeMeta(e.Data)
		meta.Granted = granted
	}
	return meta
}

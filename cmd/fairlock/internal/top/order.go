package top

import (
	"cmp"
	"strings"

	"github.com/fairlock/fairlock/internal/schema"
)

// order is the column by which the list is sorted.
type order uint8

// The zero order shows first the lock with the most waiters.
const (
	byWaiters order = iota
	byOldest
	byName
	byHeld
	orders
)

func (o order) String() string { return [...]string{"waiters", "oldest", "name", "held"}[o] }

// column is the title of the column.
func (o order) column() string { return strings.ToUpper(o.String()) }

// next returns the order n steps further.
func (o order) next(n int) order { return order((int(o) + n + int(orders)) % int(orders)) }

// compare sorts larger numbers first, and names alphabetically.
func (o order) compare(a, b schema.Queue) int {
	by := func(of order) int {
		switch of {
		case byWaiters:
			return cmp.Compare(b.Waiters, a.Waiters)
		case byOldest:
			return cmp.Compare(b.OldestWait, a.OldestWait)
		case byHeld:
			return cmp.Compare(held(b), held(a))
		case byName, orders:
		}
		return strings.Compare(a.Name, b.Name)
	}
	return cmp.Or(by(o), by(byWaiters), by(byOldest), by(byName))
}

// held is for how long the first holder has held.
func held(l schema.Queue) schema.Seconds {
	if l.Holders == 0 {
		return 0
	}
	return l.Entries[0].Held
}

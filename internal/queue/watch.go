package queue

import (
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// watch is on something that own entries wait for, or on an own entry, or on both. The
// service is not asked for the end of an own entry as long as that is not protected: the
// answer to its Leave comes here.
type watch struct {
	target driver.Target

	// by are the entries that wait for the target. Each has the watch in its on.
	by []*Entry

	// own is the entry that the watch is on, if it is one of ours; else nil.
	own *Entry

	// cancel ends what the service was asked for; nil while it is not asked.
	cancel func()

	// armed: every change of the target is reported from now on. False while cancel is nil.
	armed bool
}

// isArmed reports whether there is a watch, and it is armed.
func (w *watch) isArmed() bool { return w != nil && w.armed }

// gap reports whether something may have happened unseen before the watch is armed. Of an
// entry, Armed or Gone will show it.
func (w *watch) gap() bool { return !w.armed && w.target.Kind != driver.OfEntry }

// stop ends what the service was asked for.
func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
		w.cancel, w.armed = nil, false
	}
}

// without returns a slice without one element, in its place.
func without[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(all, func(o T) bool { return o == one })
}

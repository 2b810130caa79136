package drivertest

import (
	"bytes"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// done: a record of finished work stands beside a line.
func done() []testCase {
	return []testCase{
		{"TheRecordOfDoneWorkOutlivesItsEntry", doneStays},
		{"LinesHaveTheirOwnRecordsOfDoneWork", doneLines},
		{"TwoWhoMarkWorkAsDoneLoseNothing", doneTogether},
		{"AnEntryThatIsGoneMarksNothingAsDone", doneGone},
		{"ALateMarkDoesNotUndoANewerOne", doneLate},
		{"ARecordOfDoneWorkHasALimit", doneLarge},
	}
}

// adding returns an update that adds a word once.
func adding(word string) func([]byte) []byte {
	return func(record []byte) []byte {
		if bytes.Contains(record, []byte(word)) {
			return nil
		}
		return append(bytes.Clone(record), word...)
	}
}

func (o *owner) markDone(ref driver.Ref, word string) {
	o.w.t.Helper()
	require.NoError(o.w.t, o.MarkDone(o.w.soon(), ref, adding(word)), "MarkDone")
}

func (o *owner) doneIn(line string) string {
	o.w.t.Helper()
	record, err := o.Done(o.w.soon(), line)
	require.NoError(o.w.t, err, "Done")
	return string(record)
}

func doneStays(w *fixture) {
	o, other := w.open(), w.open()
	record, err := o.Done(w.soon(), line)
	require.NoError(w.t, err)
	assert.Nil(w.t, record, "there is none yet")
	e := o.join(line).Entry
	o.markDone(e.Ref, "a")
	o.leave(e.Ref)
	assert.Equal(w.t, "a", other.doneIn(line))

	names, err := o.c.Backend().Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Empty(w.t, names, "a record alone is no line")
}

func doneLines(w *fixture) {
	o := w.open()
	a, b := o.join(line).Entry, o.join(line+"/gpu").Entry
	o.markDone(a.Ref, "a")
	assert.Empty(w.t, o.doneIn(line+"/gpu"))
	o.markDone(b.Ref, "b")
	assert.Equal(w.t, "a", o.doneIn(line))
	assert.Equal(w.t, "b", o.doneIn(line+"/gpu"))
	o.leave(a.Ref)
	o.leave(b.Ref)
}

// doneTogether has two entries mark work at the same time: those of a semaphore.
func doneTogether(w *fixture) {
	const words = "abcdefghij"
	one, two := w.open(), w.open()
	first, second := one.joinWith(weighted(2)).Entry, two.joinWith(weighted(2)).Entry
	all := make(chan error)
	mark := func(o *owner, ref driver.Ref, words string) {
		for _, word := range words {
			all <- o.MarkDone(w.ctx, ref, adding(string(word)))
		}
	}
	go mark(one, first.Ref, words[:5])
	go mark(two, second.Ref, words[5:])
	for range words {
		require.NoError(w.t, <-all)
	}
	for _, word := range words {
		assert.Equal(w.t, 1, strings.Count(one.doneIn(line), string(word)), "%c", word)
	}
}

func doneGone(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	w.svc.Delete(w.t, e.Ref)
	require.ErrorIs(w.t, o.MarkDone(w.soon(), e.Ref, adding("a")), driver.ErrGone)
	require.ErrorIs(w.t, o.MarkDone(w.soon(), e.Ref, func([]byte) []byte { return nil }), driver.ErrGone)
	assert.Empty(w.t, o.doneIn(line))
}

func doneLate(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	o.markDone(e.Ref, "a")
	o.c.Inject(fault.Change, fault.LateRequest)
	o.markDone(e.Ref, "b")
	o.markDone(e.Ref, "c")
	o.c.Deliver()
	assert.Equal(w.t, "abc", o.doneIn(line))
}

func doneLarge(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	sized := func(n int) func([]byte) []byte {
		return func([]byte) []byte { return bytes.Repeat([]byte{'x'}, n) }
	}
	require.NoError(w.t, o.MarkDone(w.soon(), e.Ref, sized(driver.MaxDone)))
	require.ErrorIs(w.t, o.MarkDone(w.soon(), e.Ref, sized(driver.MaxDone+1)), driver.ErrRefused)
	assert.Len(w.t, o.doneIn(line), driver.MaxDone)
}

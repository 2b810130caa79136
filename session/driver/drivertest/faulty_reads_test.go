package drivertest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
)

// faultyReads are faults of what reads show.
var faultyReads = []planted{
	{"read shows what was", "read/ReadIsNotOlderThanAnEvent", old},
	{"read shows what was before an answer", "read/ReadIsNotOlderThanAnAnswer", old},
	{"a fresh read shows what was", "read/AFreshReadIsNotOlderThanTheCall", old},
	{"read of a target shows what was", "target/WhatHappensToAQueueIsReported", old},
	{"read shows one too few", "read/ReadShowsTheRequestedPart", func(b *faulty) {
		after(&b.read, func(_ driver.ReadRequest, v *driver.View) { v.Entries = v.Entries[min(1, len(v.Entries)):] })
	}},
	{"read is always complete", "read/ReadShowsTheRequestedPart", func(b *faulty) {
		before(&b.read, func(req *driver.ReadRequest) { req.From = 0 })
		after(&b.read, func(_ driver.ReadRequest, v *driver.View) { v.Complete = true })
	}},
	{"read begins at from only", "read/ReadShowsTheRequestedPart", func(b *faulty) {
		before(&b.read, func(req *driver.ReadRequest) { req.From = 0 })
	}},
	{"read shows the last for the first", "read/ReadShowsTheFirstOnes", func(b *faulty) {
		before(&b.read, func(req *driver.ReadRequest) {
			if req.Upto == 0 && req.Nearest > 0 {
				req.Upto, req.From = 1<<60, 0
			}
		})
	}},
	{"read has entries of two moments", "read/TheEntriesOfAReadAreOfOneMoment", twice(func(first, second *driver.View) {
		for _, e := range second.Entries {
			if !slices.ContainsFunc(first.Entries, func(f driver.Entry) bool { return f.Ref == e.Ref }) {
				first.Entries = append(first.Entries, e)
				first.Count = -1
			}
		}
	})},
	{"read has older records", "read/TheRecordsOfAReadAreNotOlderThanItsEntries", twice(func(first, second *driver.View) {
		first.Entries, first.Complete, first.Count = second.Entries, second.Complete, second.Count
	})},
	{"read knows no prefix", "read/ReadShowsRecordsByNameAndByPrefix", func(b *faulty) {
		before(&b.read, func(req *driver.ReadRequest) {
			req.Records = slices.DeleteFunc(slices.Clone(req.Records), func(n string) bool { return strings.HasSuffix(n, "/") })
		})
	}},
	{"read shows no marks", "marks/AMarkedEntryKeepsAllButItsMark", func(b *faulty) {
		b.shown(func(e *driver.Entry) { e.Marks = 0 })
	}},
	{"read shows no detail", "data/AReadShowsWhatAnEntryWasJoinedWith", func(b *faulty) { b.shown(func(e *driver.Entry) { e.Detail = nil }) }},
	{"read changes data", "data/AReadShowsWhatAnEntryWasJoinedWith", func(b *faulty) {
		b.shown(func(e *driver.Entry) { e.Data = []byte(strings.ToValidUTF8(string(e.Data), "?")) })
	}},
	{"every entry is valued", "data/AReadShowsWhatAnEntryWasJoinedWith", func(b *faulty) { b.shown(func(e *driver.Entry) { e.Valued = true }) }},
	{"every entry is ours", "foreign/ForeignEntriesCountAndAreMarked", func(b *faulty) { b.shown(func(e *driver.Entry) { e.Foreign = false }) }},
	{"every entry has a session", "foreign/ForeignEntriesCountAndAreMarked", func(b *faulty) { b.shown(func(e *driver.Entry) { e.Unleased = false }) }},
	// It parses what others wrote.
	{"broken data is foreign", "foreign/BrokenDataNeverBreaksTheQueue", func(b *faulty) {
		after(&b.read, func(req driver.ReadRequest, v *driver.View) {
			for i := range v.Entries {
				v.Entries[i].Foreign = req.Detail && string(v.Entries[i].Data) == "{"
			}
		})
	}},
	{"a record is a name", "record/ARecordIsNoEntryAndOutlivesThem", func(b *faulty) {
		after(&b.names, func(_ string, all *[]string) {
			if len(memtest.Records(b.st, "orders/settle")) > 0 {
				*all = append(*all, "orders/settle")
			}
		})
	}},
	{"a queue of yield requests is a name", "yield/AYieldRequestIsInNoOtherQueue", func(b *faulty) {
		after(&b.names, func(_ string, all *[]string) { *all = append(*all, driver.AskQueue("orders/settle")) })
	}},
	{"names are not sorted", "names/NamesAreListedSortedByPrefix", func(b *faulty) {
		after(&b.names, func(_ string, all *[]string) { slices.Reverse(*all) })
	}},
	{"a name is a folder", "names/NamesThatBeginAlikeNeverMeet", func(b *faulty) {
		after(&b.read, func(req driver.ReadRequest, v *driver.View) {
			if req.Queue == "a" {
				v.Entries = append(v.Entries, memtest.Entries(b.st, "a/b")...)
			}
		})
	}},
	{"the token of a record is its version", "record/TheTokenOfARecordIsThatOfItsTransaction", func(b *faulty) {
		after(&b.read, func(_ driver.ReadRequest, v *driver.View) {
			for name, r := range v.Records {
				r.Token = r.Version
				v.Records[name] = r
			}
		})
	}},
}

// old shows each part of a queue as it was some milliseconds ago.
func old(b *faulty) {
	var mu sync.Mutex
	kept := make(map[string]driver.View)
	sound := b.read
	b.read = func(s driver.Session, ctx context.Context, req driver.ReadRequest) (driver.View, error) {
		mu.Lock()
		defer mu.Unlock()
		key := s.ID() + req.Queue + strings.Join(req.Records, ",") + string(rune(req.Upto))
		v, ok := kept[key]
		if !ok {
			var err error
			if v, err = sound(s, ctx, req); err != nil {
				return v, err
			}
			kept[key] = v
			time.AfterFunc(3*time.Millisecond, func() {
				mu.Lock()
				defer mu.Unlock()
				delete(kept, key)
			})
		}
		return v, nil
	}
}

// twice makes one view of two.
func twice(merge func(first, second *driver.View)) func(b *faulty) {
	return func(b *faulty) {
		sound := b.read
		b.read = func(s driver.Session, ctx context.Context, req driver.ReadRequest) (driver.View, error) {
			first, err := sound(s, ctx, req)
			if err != nil {
				return first, err
			}
			second, err := sound(s, ctx, req)
			merge(&first, &second)
			return first, err
		}
	}
}

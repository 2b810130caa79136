package drivertest

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// asks: who asks a holder to yield stands beside the line, in a line of its own.
func asks() []testCase {
	return []testCase{
		{"AnAskIsInNoLine", askBeside},
		{"AnAskIsNotToldToWhoWatchesTheLine", askQuiet},
		{"AnAskIsToldToWhoWatchesForIt", askTold},
		{"AsksOfAllNamesAreApart", askNames},
		{"WhatOthersPutBesideTheLineIsMarked", askForeign},
	}
}

// asking is the request of somebody who asks.
func asking(name, why string) driver.JoinRequest {
	return driver.JoinRequest{
		Line: driver.AskLine(name), Value: []byte(why), Meta: driver.Meta{Kind: "ask", Host: "web-2", PID: 7}, Nearest: 1,
	}
}

func askBeside(w *fixture) {
	o, by := w.open(), w.open()
	e := o.join(line).Entry
	first := by.joinWith(asking(line, "a deploy")).Entry
	second := o.joinWith(asking(line, "me too"))
	assert.Equal(w.t, 1, second.Ahead)

	w.count(1, line, "asks are not in it")
	require.Equal(w.t, []driver.Ref{e.Ref}, refs(w.list(by.c, line)))
	require.Equal(w.t, []driver.Ref{e.Ref}, refs(by.look(driver.LookRequest{Line: line, Upto: e.Place}).Entries))
	behind := by.join(line)
	assert.Equal(w.t, 1, behind.Ahead, "and nobody waits for them")
	names, err := o.c.Backend().Names(w.ctx, "")
	require.NoError(w.t, err)
	assert.Equal(w.t, []string{line}, names)

	got := w.list(o.c, driver.AskLine(line))
	require.Equal(w.t, []driver.Ref{first.Ref, second.Entry.Ref}, refs(got))
	assert.Equal(w.t, "a deploy", string(got[0].Value))
	assert.Equal(w.t, driver.Meta{Kind: "ask", Host: "web-2", PID: 7}, got[0].Meta)
	assert.Equal(w.t, by.ID(), got[0].Session)
	assert.Greater(w.t, got[1].Token, got[0].Token)
	o.leave(e.Ref)
	by.leave(behind.Entry.Ref)
	names, err = o.c.Backend().Names(w.ctx, "")
	require.NoError(w.t, err)
	assert.Empty(w.t, names, "a line that only has asks has no name")
	require.Len(w.t, w.list(o.c, driver.AskLine(line)), 2, "and they stay")
}

// askQuiet has watches of all kinds on the line, and wants none of them told.
func askQuiet(w *fixture) {
	o, by := w.open(), w.open()
	e := o.joinWith(exclusive()).Entry
	var quiet []*recorder
	for what, req := range map[string]driver.WatchRequest{
		"line": {Of: driver.OfLine}, "limit": {Of: driver.OfLimit}, "admitted": {Of: driver.OfAdmitted},
		"entry": {Ref: e.Ref, Changes: true}, "own entry": {Ref: e.Ref, Own: true},
	} {
		req.Ref.Line = line
		r, _ := o.armed(what, req)
		quiet = append(quiet, r)
	}
	heard, _ := o.armed("asks", driver.WatchRequest{Ref: driver.Ref{Line: driver.AskLine(line)}, Of: driver.OfLine})
	for range 3 {
		by.leave(by.joinWith(asking(line, "why not")).Entry.Ref)
	}
	heard.awaitNews(func(int64) bool { return len(w.list(o.c, driver.AskLine(line))) == 0 })
	for _, r := range quiet {
		for _, ev := range r.all() {
			if ev.Kind == driver.Changed && ev.Rev == e.Ref.Place {
				continue // the entry itself: a server that is behind tells of it when it learns of it
			}
			// A watch that breaks, on a machine that stands still, is armed again.
			assert.Contains(w.t, []driver.EventKind{driver.Armed, driver.Broken}, ev.Kind, "%s", r.what)
		}
	}
}

func askTold(w *fixture) {
	o, by := w.open(), w.open()
	heard, _ := o.armed("asks", driver.WatchRequest{Ref: driver.Ref{Line: driver.AskLine(line)}, Of: driver.OfLine})
	shows := func(n int) func(int64) bool {
		return func(int64) bool { return len(w.list(o.c, driver.AskLine(line))) == n }
	}
	first := by.joinWith(asking(line, "one")).Entry
	heard.awaitNews(shows(1))
	second := w.open()
	second.joinWith(asking(line, "two"))
	heard.awaitNews(shows(2))
	by.leave(first.Ref)
	heard.awaitNews(shows(1))
	w.svc.Expire(w.t, second.ID())
	heard.awaitNews(shows(0))
}

func askNames(w *fixture) {
	o := w.open()
	all := accepted(w, o.c.Backend())
	made := make(map[string]driver.Ref, len(all))
	for _, name := range all {
		made[name] = o.joinWith(asking(name, name)).Entry.Ref
	}
	for _, name := range all {
		got := w.list(o.c, driver.AskLine(name))
		require.Equal(w.t, []driver.Ref{made[name]}, refs(got), "the asks for %q", name)
		assert.Equal(w.t, name, string(got[0].Value))
		w.count(0, name, "and nobody stands in the line")
	}
	for _, prefix := range []string{"", "a", "limit", "a/\x00"} {
		names, err := o.c.Backend().Names(w.ctx, prefix)
		require.NoError(w.t, err)
		assert.Empty(w.t, names, "prefix %q", prefix)
	}
	for _, name := range all {
		o.leave(made[name])
	}
}

// askForeign: what is there and is no ask, or is none any more, is shown for what
// it is, and costs the others nothing.
func askForeign(w *fixture) {
	o := w.open()
	mine := o.joinWith(asking(line, "please")).Entry.Ref
	f := w.svc.PutForeign(w.t, driver.AskLine(line), true)
	var stays []driver.Ref
	if w.h.NoUnleased == "" {
		stays = append(stays, w.svc.PutForeign(w.t, driver.AskLine(line), false))
	}
	for _, v := range []string{"", "\x00\xff", `{"v":1,"kind":"ask"}`, `{"v":1,"host":{}}`} {
		w.svc.Overwrite(w.t, f, []byte(v))
		w.svc.Overwrite(w.t, mine, []byte(v))
		got := w.list(o.c, driver.AskLine(line))
		require.Equal(w.t, slices.Concat([]driver.Ref{mine, f}, stays), refs(got), "value %q", v)
		assert.False(w.t, got[0].Foreign)
		assert.Equal(w.t, v, string(got[0].Value), "as it is")
		assert.Equal(w.t, "web-2", got[0].Meta.Host)
		for i, e := range got[1:] {
			assert.True(w.t, e.Foreign)
			assert.Equal(w.t, i > 0, e.Unleased)
		}
	}
	late := o.joinWith(asking(line, "me too"))
	assert.Equal(w.t, 2+len(stays), late.Ahead)
}

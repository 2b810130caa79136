// Package script has the scripts that Redis runs for the backend, what they take, and what they return.
// It sends nothing.
//
// A request is one script, which the server runs as one step, so everything in it is of one moment.
// Every script first finds out which life the server has, and compares that with the life that is stored
// and with that of the caller. All keys of a root have one hash tag; a script finds them from the first
// of its keys, which names the tag.
//
//	{root}:meta         layout, blessed life and the number it began with, newest number, claim and count of a quarantine, greatest TTL, nodes
//	{root}:ses          sessions, by the version of the newest renewal
//	{root}:s:<session>  what the session owns, and the newest reply of each of its slots
//	{root}:q:<queue>    places of the entries
//	{root}:h:<queue>    header, data, detail and watchers of each entry
//	{root}:r:<queue>    records
//	{root}:names        names of the queues that have entries
//
// A place, which is the token, and a version are numbers of one hybrid clock: the time of the server in
// microseconds, or one more than the number before. They are exact up to 2^53, in the year 2255.
package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts so
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed lua
var files embed.FS

// A Script is one text that the server runs.
type Script struct {
	Name string
	Text string
	SHA  string // by which the server knows it
}

// Set is the scripts of one kind of server.
type Set struct {
	Kind Kind

	Examine, Bless, Init        Script
	Renew, See, Watch, Finish   Script
	Join, Settle, Leave, Update Script
	Read, Names                 Script
}

// Kind is what the scripts must know of a server.
type Kind struct {
	// Cluster: notices go through sharded channels, so that they stay on the nodes that have the root.
	Cluster bool

	// Flags: the server is Redis 7 or later. There a script names what it does. So what it may not do for now
	// is refused before it begins, and what frees memory or keeps a session runs also when memory is short.
	Flags bool

	// Database is the number of the database, which is in the names of the channels.
	Database int
}

// New returns the scripts for a kind of server.
func New(k Kind) *Set {
	s := func(flags, name string, parts ...string) Script {
		text := ""
		if k.Flags {
			text = "#!lua" + flags + "\n"
		}
		all := append(append([]string{"head"}, parts...), name)
		if name == "examine" {
			all = append([]string{"rights"}, all...) // it is to fail before anything else does
		}
		for _, p := range all {
			b, err := files.ReadFile("lua/" + p + ".lua")
			if err != nil {
				panic(fmt.Sprintf("script: %v", err)) // they are built in
			}
			text += string(b)
		}
		if k.Cluster {
			text = strings.ReplaceAll(text, "call('PUBLISH'", "call('SPUBLISH'")
		}
		text = strings.ReplaceAll(text, "P .. 'c:", "P .. '"+Channels("", k.Database)+":")
		sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis names scripts so
		return Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:])}
	}
	const reads, frees, grows = " flags=no-writes", " flags=allow-oom", ""
	return &Set{
		Kind:    k,
		Examine: s(frees, "examine"),
		Bless:   s(frees, "bless", "things"),
		Init:    s(grows, "init"),
		Renew:   s(frees, "renew", "life", "things", "look"),
		See:     s(reads, "see", "life", "things", "look"),
		Watch:   s(frees, "watch", "life", "things", "look"),
		Finish:  s(frees, "finish", "life", "things"),
		Join:    s(grows, "join", "life", "things", "once", "reads", "ops"),
		Settle:  s(frees, "settle", "life", "things"),
		Leave:   s(frees, "leave", "life", "things", "once", "ops"),
		Update:  s(grows, "update", "life", "things", "once", "ops"),
		Read:    s(reads, "read", "life", "things", "reads"),
		Names:   s(reads, "names", "life"),
	}
}

// Package script has the scripts that Redis runs for the backend, what they take, and what they return.
// It sends nothing.
//
// A request is one script, which the server runs as one step, so everything in it is of one moment.
// Every script first finds out which life the server has, and compares that with the life that is stored
// and with that of the caller. All keys of a root have one hash tag; a script finds them from the first
// of its keys, which names the tag.
//
//	{root}:meta         layout, blessed life, newest number, claim and count of a quarantine, greatest TTL, nodes
//	{root}:ses          sessions, by the version of the newest renewal
//	{root}:s:<session>  what the session owns, and the newest reply of each of its slots
//	{root}:q:<queue>    places of the entries
//	{root}:h:<queue>    header, data and detail of each entry
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
	Sharded bool // notices are on sharded channels

	Examine, Bless, Init        Script
	Renew, See, Finish          Script
	Join, Settle, Leave, Update Script
	Read, Names                 Script
}

// New returns the scripts. In a cluster, sharded channels keep notices on the nodes that have the root.
func New(sharded bool) *Set {
	s := func(name string, parts ...string) Script {
		text := ""
		for _, p := range append(append([]string{"head"}, parts...), name) {
			b, err := files.ReadFile("lua/" + p + ".lua")
			if err != nil {
				panic(fmt.Sprintf("script: %v", err)) // they are built in
			}
			text += string(b)
		}
		if sharded {
			text = strings.ReplaceAll(text, "'PUBLISH'", "'SPUBLISH'")
		}
		sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis names scripts so
		return Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:])}
	}
	return &Set{
		Sharded: sharded,
		Examine: s("examine"),
		Bless:   s("bless", "things"),
		Init:    s("init"),
		Renew:   s("renew", "life", "things", "look"),
		See:     s("see", "life", "things", "look"),
		Finish:  s("finish", "life", "things"),
		Join:    s("join", "life", "things", "once", "reads", "ops"),
		Settle:  s("settle", "life", "things"),
		Leave:   s("leave", "life", "things", "once", "ops"),
		Update:  s("update", "life", "things", "once", "ops"),
		Read:    s("read", "life", "things", "reads"),
		Names:   s("names", "life"),
	}
}

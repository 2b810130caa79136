// Package glossary finds words that the project has retired in the texts that users
// read. One thing has one word there, and that is the field's own.
package glossary

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// An Entry is a family of retired words.
type Entry struct {
	Retired *regexp.Regexp // with capital letters or without
	Instead string         // what to write
}

// entry makes an Entry of alternatives, each of whole words.
func entry(alternatives, instead string) Entry {
	return Entry{regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(alternatives, " ", `\s+`) + `)\b`), instead}
}

// Entries returns the retired words. A word that is right in another sense, such as
// "line" for one of a text, is here only in phrases that have one sense.
func Entries() []Entry {
	const theLine = `(?:a|an|the|one|its|each|every|that|this|their|another|an empty|the same) line`
	return []Entry{
		entry(`whoever|whomever|somebody|anybody|everybody|nobody`, `name the actor: the holder, the waiter, another client, no client`),
		entry(`who (?:waits?|holds?|asks?|stands?|wants?|needs?|comes?|joins?|gives?|leads)`, `the waiter, the holder, the leader, the client that …`),
		entry(`he|him|his|himself`, `it, its, or name the actor`),
		entry(`(?:in|joins?|joined|leaves?|left|end of|outside|beside|before|behind|share|shares) `+theLine+`|in line|lines? of (?:locks?|entries|asks)|lock's (?:own )?line`, `queue`),
		entry(`seats?|stands? in`, `entry, place, is in`),
		entry(`(?:gives?|gave|given|giving)(?: [a-z]+){0,2} back`, `release`),
		entry(`tells?|told|telling`, `report, return, notify, distinguish`),
		entry(`says|said|saying`, `reports, returns, contains, shows`),
		entry(`hears?|heard|ears?|bells?`, `notify, watch, event`),
		entry(`vouch(?:es|ed)?|kin|strikes?|struck|pulses?|regimes?`, `the word of the field`),
		entry(`beside`, `next to, with; of a value: a record`),
		entry(`keeps? account|the account|leaves? word|left word|word of`, `record, ledger`),
		entry(`beliefs?|believed in`, `trust window, deadline`),
		entry(`strangers?`, `other program`),
		entry(`story|stories`, `case`),
		entry(`the own`, `its own`),
		entry(`asks? back`, `ask for confirmation`),
		entry(`the brief|as asked|goals? (?:is|are|was|were) not met`, `state the limit and its reason`),
	}
}

// A Finding is a retired word in a text.
type Finding struct {
	Line    int // from 1 on
	Word    string
	Instead string
}

// String returns the finding as part of a sentence.
func (f Finding) String() string { return fmt.Sprintf("%q: write %s", f.Word, f.Instead) }

// Find returns the retired words of a text, in order of lines. It leaves out names:
// words in known with the same letters, and words that are part of a path, a key or
// another compound.
func Find(text string, known map[string]bool) []Finding {
	const partOf = "%/._="
	var all []Finding
	for _, e := range Entries() {
		for _, at := range e.Retired.FindAllStringIndex(text, -1) {
			word := text[at[0]:at[1]]
			before, after := text[:at[0]], text[at[1]:]
			switch {
			case known[word]:
			case before != "" && strings.ContainsRune(partOf, rune(before[len(before)-1])):
			case after != "" && strings.ContainsRune("/_=(", rune(after[0])):
			default:
				all = append(all, Finding{1 + strings.Count(before, "\n"), strings.Join(strings.Fields(word), " "), e.Instead})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return a.Line - b.Line })
	return all
}

// Markdown returns the prose of a page: everything else is empty, on as many lines.
func Markdown(page string) string {
	for _, quoted := range []*regexp.Regexp{
		regexp.MustCompile("(?s)```.*?```"), regexp.MustCompile(`(?s)<!--.*?-->`),
		regexp.MustCompile("`[^`]*`"), regexp.MustCompile(`\]\([^)]*\)`),
	} {
		page = quoted.ReplaceAllStringFunc(page, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) + " " })
	}
	return page
}

package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlock/fairlock/internal/address"
)

// Error texts of cobra and pflag.
var (
	unknownCommand = regexp.MustCompile(`^unknown command "(.+)" for `)
	unknownFlag    = regexp.MustCompile(`^unknown flag: --(\S+)`)
	notTogether    = regexp.MustCompile(`^if any flags in the group .* \[(\S+) (.+)\] were all set$`)
	noNumber       = regexp.MustCompile(`^(invalid argument .*): strconv\.Parse(Int|Bool): .*$`)
)

// otherOn are the words that other tools use for what --on is here.
var otherOn = []string{"url", "server", "servers", "endpoint", "endpoints", "host", "hosts", "address", "addr", "service"}

// hint adds to err what the user may have meant.
func hint(cmd *cobra.Command, err error) error {
	m := unknownCommand.FindStringSubmatch(err.Error())
	if m != nil {
		var words []string
		for _, c := range cmd.Commands() {
			if slices.Contains(c.SuggestFor, strings.ToLower(m[1])) { // another tool's word for the command
				return fmt.Errorf("%w: did you mean %q?", err, c.Name())
			}
			if c.IsAvailableCommand() {
				words = append(append(words, c.Name()), c.Aliases...)
			}
		}
		near := nearest(m[1], words)
		if near != "" {
			return fmt.Errorf("%w: did you mean %q?", err, near)
		}
	}
	m = unknownFlag.FindStringSubmatch(err.Error())
	if m != nil {
		var words []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				words = append(words, f.Name)
			}
		})
		word, _, _ := strings.Cut(m[1], "=")
		if slices.Contains(otherOn, strings.ToLower(word)) && cmd.Flags().Lookup("on") != nil {
			return fmt.Errorf("%w: did you mean --on, with a URL such as %s?", err, address.Example)
		}
		near := nearest(word, words)
		if near != "" {
			return fmt.Errorf("%w: did you mean --%s?", err, near)
		}
	}
	m = notTogether.FindStringSubmatch(err.Error())
	if m != nil {
		return fmt.Errorf("--%s and --%s do not go together", m[1], strings.Join(strings.Fields(m[2]), " and --"))
	}
	m = noNumber.FindStringSubmatch(err.Error())
	if m != nil {
		return fmt.Errorf("%s: want %s", m[1], map[string]string{"Int": "a whole number", "Bool": "true or false"}[m[2]])
	}
	return err
}

// aName checks that there is one argument, the name of a lock.
func aName(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("want the NAME of a lock")
	case len(args) > 1:
		return fmt.Errorf("unexpected %q after the name", args[1])
	}
	return nil
}

// nearest returns the word that is the fewest changes away from s, or "" if each word
// is too far away. How far is too far depends on the length of s, and is never all of
// s. If s has two bytes or more, a word that begins with s counts as one change away.
func nearest(s string, words []string) string {
	best, least := "", min(max(1, len(s)/3)+1, len(s))
	for _, w := range words {
		d := distance(strings.ToLower(s), strings.ToLower(w))
		if len(s) >= 2 && strings.HasPrefix(w, s) {
			d = 1
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

// distance returns how many bytes must be inserted, deleted, replaced, or swapped with
// the next one, to turn a into b.
func distance(a, b string) int {
	before, above := []int(nil), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}

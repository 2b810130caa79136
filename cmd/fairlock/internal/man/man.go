// Package man writes manual pages of commands. cobra's own writer goes through Markdown,
// and would link three more modules.
package man

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
)

// Write writes a page for cmd and one for each command below it into a folder,
// and returns how many. Pages of an older version are overwritten.
func Write(cmd *cobra.Command, dir string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("write manual pages: %w", err)
	}
	n := 0
	for _, c := range visible(cmd) {
		path := filepath.Join(dir, name(c)+".1")
		if err := os.WriteFile(path, []byte(Page(c)), 0o644); err != nil {
			return n, fmt.Errorf("write manual pages: %w", err)
		}
		n++
	}
	return n, nil
}

// visible returns a command and all visible commands below it.
func visible(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		if (c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() && !c.Hidden) && c.Name() != "help" {
			all = append(all, visible(c)...)
		}
	}
	return all
}

// name returns the name of a command's page.
func name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Page returns a command's manual page, in the format of man(7).
func Page(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s\" \"User Commands\"\n", quote(strings.ToUpper(name(cmd))), cmd.Root().Name())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(name(cmd)), escape(lower(cmd.Short)))
	synopsis := cmd.UseLine()
	if cmd.Runnable() || cmd.HasSubCommands() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", escape(synopsis))
	}
	if cmd.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", body(cmd.Long))
	}
	if cmd.Runnable() || cmd.HasSubCommands() { // the others are topics
		flags(&b, "OPTIONS", cmd.NonInheritedFlags())
	}
	if cmd.Annotations[connect.Annotation] != "" {
		flags(&b, "CONNECTION OPTIONS", cmd.InheritedFlags())
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", body(cmd.Example))
	}
	var others []string
	p := cmd.Parent()
	if p != nil {
		others = append(others, name(p))
	}
	for _, c := range visible(cmd)[1:] {
		if c.Parent() == cmd {
			others = append(others, name(c))
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n")
		for i, o := range others {
			end := ","
			if i == len(others)-1 {
				end = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", escape(o), end)
		}
	}
	return b.String()
}

// body formats running text. Indented lines are not filled.
func body(text string) string {
	var b strings.Builder
	shown := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !shown:
			b.WriteString(".nf\n")
		case !indented && shown:
			b.WriteString(".fi\n")
		}
		shown = indented
		if line == "" {
			line = ".PP"
		} else {
			line = escape(line)
		}
		b.WriteString(line + "\n")
	}
	if shown {
		b.WriteString(".fi\n")
	}
	return b.String()
}

func flags(b *strings.Builder, title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		word, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n.B ")
		if f.Shorthand != "" {
			b.WriteString(escape("-" + f.Shorthand + ", "))
		}
		b.WriteString(escape("--" + f.Name))
		if word != "" {
			b.WriteString(escape("=" + word))
		}
		b.WriteString("\n" + escape(usage) + "\n")
	})
}

// escaped are the characters that have a meaning for roff, or that it would replace.
var escaped = regexp.MustCompile("[\\\\'`^~-]|^\\.")

// escape escapes a line of text.
func escape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(c string) string {
		switch c {
		case "\\":
			return `\e`
		case "'":
			return `\(aq`
		case "`":
			return `\(ga`
		case "^":
			return `\(ha`
		case "~":
			return `\(ti`
		case "-":
			return `\-`
		}
		return `\&` + c
	})
}

func quote(s string) string { return `"` + escape(s) + `"` }

// lower makes the first letter lower case, as in NAME sections.
func lower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

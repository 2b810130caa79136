// Package show writes the results of commands, which are values of package schema: tables
// for people, JSON and YAML for programs.
package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// The formats.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Lines = "jsonl"
	Names = "name"
)

// Output is how to write results. Its fields are flags.
type Output struct {
	Format string
	of     []string // the formats that the command has, the default first

	// NoColour points to a flag of the root command, which is parsed after this is created.
	NoColour *bool
}

// FlagName is the name of the flag for the format.
const FlagName = "output"

// Register defines -o for a command with these formats, the default first.
func (o *Output) Register(cmd *cobra.Command, of ...string) {
	o.Format, o.of = of[0], of
	cmd.Flags().VarP((*format)(o), FlagName, "o", "`FORMAT`: "+strings.Join(of, "|"))
	err := cmd.RegisterFlagCompletionFunc(FlagName, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return o.of, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag was defined above
	}
}

// format is Output as a flag.
type format Output

// String implements pflag.Value.
func (f *format) String() string { return f.Format }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	if !slices.Contains(f.of, s) {
		last := len(f.of) - 1
		return errors.New("want " + strings.Join(f.of[:last], ", ") + " or " + f.of[last])
	}
	f.Format = s
	return nil
}

// Type implements pflag.Value.
func (f *format) Type() string { return "FORMAT" }

// Objects reports whether to write objects instead of text for people.
func (o *Output) Objects() bool { return objects(o.Format) }

func objects(format string) bool { return format == JSON || format == YAML || format == Lines }

// WantsObjects reports whether a command writes objects. Errors are then objects too: as
// JSON, which is valid YAML.
func WantsObjects(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup(FlagName)
	return f != nil && objects(f.Value.String())
}

// One writes one object, as JSON or YAML.
func (o *Output) One(w io.Writer, v any) error {
	switch o.Format {
	case Lines:
		return write(w, v, "")
	case YAML:
		return writeYAML(w, v)
	}
	return write(w, v, "  ")
}

// All writes several objects: as an array in JSON or YAML, or one per line.
func All[T any](o *Output, w io.Writer, all []T) error {
	if o.Format != Lines {
		if all == nil {
			all = []T{}
		}
		return o.One(w, all)
	}
	for _, v := range all {
		if err := write(w, v, ""); err != nil {
			return err
		}
	}
	return nil
}

// Line writes one object as one line.
func Line(w io.Writer, v any) error { return write(w, v, "") }

// write writes an object with one call of Write, so that lines are not mixed if several
// processes write.
func write(w io.Writer, v any, indent string) error {
	text, err := encode(v, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(escape(text, surrogates))
	return err
}

func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return b.Bytes(), nil
}

// Name writes the name of a lock as a line: as it is for programs, and printable on a
// terminal. Another program may have chosen it.
func Name(w io.Writer, name string) {
	if f, ok := w.(*os.File); ok && screen.IsTerminal(f) {
		name = screen.Printable(name)
	}
	fmt.Fprintln(w, name)
}

// Paint returns a Paint with colours if w is a terminal that shows them.
func (o *Output) Paint(w io.Writer) screen.Paint {
	f, ok := w.(*os.File)
	return screen.NewPaint(ok && !*o.NoColour && screen.Colours(f))
}

// writeYAML writes the JSON of an object as YAML. YAML has no escapes outside of double
// quotes, so an object with a character that cannot be printed is written in the form
// of JSON, which YAML reads too.
func writeYAML(w io.Writer, v any) error {
	text, err := encode(v, "  ")
	if err != nil {
		return err
	}
	out, err := yaml.JSONToYAML(text)
	if err != nil || bytes.IndexFunc(slices.Concat(text, out), unprintable) >= 0 {
		out = escape(text, longEscape)
	}
	_, err = w.Write(out)
	return err
}

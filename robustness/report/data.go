package report

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/robustness/load"
	"github.com/fairlock/fairlock/robustness/trial"
)

// Data has all results that Read found in its folders.
type Data struct {
	trials  []*trial.Result
	abouts  []*About
	loads   []*load.Result
	outputs []string // of tests
	damaged []string // files and lines that could not be read, each with the reason
}

// About describes a run of trials: what a reader must know to interpret its results.
type About struct {
	Service string
	Lock    string
	Commit  string // "" if unknown
	Go      string
	System  string
	CPUs    int
	Began   time.Time
	Took    time.Duration // 0 if the run did not finish
	Load    string        // of the machine at the end, in the last minutes
}

// The names of files in a folder of results.
const (
	trialsEnd = ".jsonl"      // a trial.Result per line
	aboutEnd  = ".about.json" // an About
	loadBegin = "load"        // with .json at the end: an array of load.Result
	outputEnd = ".txt"        // the output of a test
	packedEnd = ".gz"         // after any of the others
)

// Results returns the path of the file for the results of a run on a service.
func Results(folder, service, lock string) string {
	return filepath.Join(folder, service+"-"+lock+trialsEnd)
}

func aboutFile(folder, service, lock string) string {
	return filepath.Join(folder, service+"-"+lock+aboutEnd)
}

// Write writes the description of a run into the folder of its results.
func (a *About) Write(folder string) error {
	text, err := json.MarshalIndent(a, "", "  ")
	if err == nil {
		err = os.WriteFile(aboutFile(folder, a.Service, a.Lock), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Read reads all results in folders. It adds up several runs of the same kind, and reads
// a folder that is named twice only once. It leaves out damaged lines and files, which
// the tables list: a run that was killed leaves half a line.
func Read(folders []string) (*Data, error) {
	d := &Data{}
	var seen []string
	for _, folder := range folders {
		path, err := filepath.EvalSymlinks(folder)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		if slices.Contains(seen, path) {
			continue
		}
		seen = append(seen, path)
		if err := d.folder(path); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
	}
	if len(d.trials)+len(d.loads)+len(d.outputs) == 0 {
		return nil, fmt.Errorf("report: there are no results in %q", folders)
	}
	return d, nil
}

// Damaged names the files and lines that could not be read.
func (d *Data) Damaged() []string { return slices.Clone(d.damaged) }

func (d *Data) folder(path string) error {
	files, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, f := range files {
		name, packed := strings.CutSuffix(f.Name(), packedEnd)
		read := d.reader(name)
		if read == nil || f.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(path, f.Name()))
		if err != nil {
			return err
		}
		if packed {
			text, err = unpack(text)
		}
		if err := errors.Join(read(text), err); err != nil {
			d.damage(filepath.Join(filepath.Base(path), f.Name()), err)
		}
	}
	return nil
}

// unpack decompresses gzip. Of a truncated file it returns the part that is readable.
func unpack(text []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// reader returns the function that reads a file of that name; nil if it has no results.
func (d *Data) reader(name string) func([]byte) error {
	switch {
	case strings.HasSuffix(name, trialsEnd):
		return d.lines
	case strings.HasSuffix(name, aboutEnd):
		return func(text []byte) error {
			a := &About{}
			err := json.Unmarshal(text, a)
			if err == nil {
				d.abouts = append(d.abouts, a)
			}
			return err
		}
	case strings.HasPrefix(name, loadBegin) && strings.HasSuffix(name, ".json"):
		return func(text []byte) error {
			var all []*load.Result
			err := json.Unmarshal(text, &all)
			if err == nil {
				d.loads = append(d.loads, all...)
			}
			return err
		}
	case strings.HasSuffix(name, outputEnd):
		return func(text []byte) error {
			d.outputs = append(d.outputs, string(text))
			return nil
		}
	}
	return nil
}

// errNoTrial reports that a line is JSON, but not the result of a trial.
var errNoTrial = errors.New("not the result of a trial")

// lines reads a trial from each line.
func (d *Data) lines(text []byte) error {
	var errs []error
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r := &trial.Result{}
		err := json.Unmarshal(line, r)
		if err == nil && (r.Service == "" || r.Lock == "" || r.Kind == "") {
			err = errNoTrial
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		d.trials = append(d.trials, r)
	}
	return errors.Join(errs...)
}

// damage records why a file could not be read: each of the joined errors.
func (d *Data) damage(file string, err error) {
	for text := range strings.SplitSeq(err.Error(), "\n") {
		d.damaged = append(d.damaged, file+": "+text)
	}
}

// unread lists what could not be read.
func (d *Data) unread() string {
	if len(d.damaged) == 0 {
		return ""
	}
	return fmt.Sprintf("**Not read, and so not counted:** %s.", strings.Join(d.damaged, "; "))
}

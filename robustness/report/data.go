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

// Data is what was found in folders.
type Data struct {
	trials  []*trial.Result
	abouts  []*About
	weights []*load.Result
	spoken  []string // what tests have said
	damaged []string // what could not be read
}

// About is what must be known of a run of trials to read its results.
type About struct {
	Service string
	Lock    string
	Commit  string // "" if unknown
	Go      string
	System  string
	CPUs    int
	Began   time.Time
	Took    time.Duration // 0 if it did not come to its end
	Load    string        // of the machine at the end, in the last minutes
}

// The names of files in a folder of results.
const (
	trialsEnd = ".jsonl"      // a trial.Result in each line
	aboutEnd  = ".about.json" // an About
	loadBegin = "load"        // and .json: an array of load.Result
	spokenEnd = ".txt"        // what a test has said
	packedEnd = ".gz"         // behind any of them
)

// Results is the file for the results of a run on a service, and AboutFile that
// for what is to be known about it.
func Results(folder, service, lock string) string {
	return filepath.Join(folder, service+"-"+lock+trialsEnd)
}

func aboutFile(folder, service, lock string) string {
	return filepath.Join(folder, service+"-"+lock+aboutEnd)
}

// Write writes what is to be known about a run beside its results.
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

// Read reads all results in folders. Several runs of the same add up; a folder that
// is named twice counts once. What is damaged is left out, and told in the tables:
// a run that was killed leaves half a line.
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
	if len(d.trials)+len(d.weights)+len(d.spoken) == 0 {
		return nil, fmt.Errorf("report: there are no results in %q", folders)
	}
	return d, nil
}

// Damaged names what could not be read.
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

// unpack undoes gzip. Of what was cut short it returns what can be had.
func unpack(text []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// reader is what reads a file of that name; nil if it is none of the results.
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
				d.weights = append(d.weights, all...)
			}
			return err
		}
	case strings.HasSuffix(name, spokenEnd):
		return func(text []byte) error {
			d.spoken = append(d.spoken, string(text))
			return nil
		}
	}
	return nil
}

// errNoTrial says that a line is JSON, and not of a trial.
var errNoTrial = errors.New("it is no result of a trial")

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

// damage notes what could not be read: each error of those that are joined.
func (d *Data) damage(file string, err error) {
	for text := range strings.SplitSeq(err.Error(), "\n") {
		d.damaged = append(d.damaged, file+": "+text)
	}
}

// unread tells what could not be read.
func (d *Data) unread() string {
	if len(d.damaged) == 0 {
		return ""
	}
	return fmt.Sprintf("**Not read, and so not counted:** %s.", strings.Join(d.damaged, "; "))
}

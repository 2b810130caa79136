package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onpg"
	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/report"
	"github.com/fairlock/fairlock/robustness/trial"
)

// drawing is the work of -report.
type drawing struct {
	folders []string
	page    string
}

// reported returns the services in a report.
func reported() []report.Service {
	_, servers := trial.Aimed()
	return []report.Service{
		{Name: onetcd.Name, Title: "etcd", Peers: []string{onetcd.Stock}},
		{
			Name: onzk.Name, Title: "ZooKeeper", Peers: []string{onzk.Stock, onzk.StockCareless},
			Without: []string{"leader-moved", "compaction", "quota"}, Transports: onzk.Transports(),
		},
		{
			Name: onpg.Name, Title: "PostgreSQL", Peers: []string{onpg.Advisory, onpg.Lease},
			Without: servers, Transports: onpg.Setups(), // its faults at servers are its own
		},
		{
			Name: onredis.Name, Title: "Redis", Peers: []string{onredis.Redsync, onredis.Redlock, onredis.Redislock},
			Without: servers, Transports: onredis.Setups(),
		},
	}
}

// evidence is the page with all tables, in the folder that is named as the page of the
// summary is.
func (d *drawing) evidence() string {
	return filepath.Join(strings.TrimSuffix(d.page, filepath.Ext(d.page)), "README.md")
}

// write draws the summary into the page, all tables into the page of the evidence, and
// the plot into a file next to that. If there is no page, it prints the tables.
func (d *drawing) write(out, progress io.Writer) error {
	data, err := report.Read(d.folders)
	if err != nil {
		return err
	}
	for _, what := range data.Damaged() {
		fmt.Fprintln(progress, "robustness: not read:", what)
	}
	tables := data.Markdown(reported())
	if d.page == "" {
		_, err := io.WriteString(out, tables)
		return err
	}
	summary, err := drawn(d.page, data.Summary(reported()))
	if err != nil {
		return err
	}
	evidence, err := drawn(d.evidence(), tables)
	if err != nil {
		return err
	}
	plot, err := data.Plot(reported())
	if err != nil {
		return err
	}
	written := []string{d.page, d.evidence()}
	err = errors.Join(os.WriteFile(d.page, summary, 0o644), os.WriteFile(d.evidence(), evidence, 0o644))
	if plot != nil {
		name := filepath.Join(filepath.Dir(d.evidence()), "notified.svg")
		written = append(written, name)
		err = errors.Join(err, os.WriteFile(name, plot, 0o644))
	}
	fmt.Fprintln(progress, "robustness: written:", strings.Join(written, ", "))
	return err
}

// drawn returns a page with the text between its marks.
func drawn(path, text string) ([]byte, error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	page, err := report.Into(old, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return page, nil
}

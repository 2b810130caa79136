package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/report"
)

// drawing is the work of -report.
type drawing struct {
	folders []string
	page    string
}

// reported returns the services in a report.
func reported() []report.Service {
	return []report.Service{
		{Name: onetcd.Name, Title: "etcd", Peers: []string{onetcd.Stock}},
		{
			Name: onzk.Name, Title: "ZooKeeper", Peers: []string{onzk.Stock, onzk.StockCareless},
			Without: []string{"leader-moved", "compaction", "quota"}, Transports: onzk.Transports(),
		},
	}
}

// write draws the tables into the page, and the plot into a file next to it. If there is
// no page, it prints the tables.
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
	old, err := os.ReadFile(d.page)
	if err != nil {
		return err
	}
	page, err := report.Into(old, tables)
	if err != nil {
		return fmt.Errorf("%s: %w", d.page, err)
	}
	plot, err := data.Plot(reported())
	if err != nil {
		return err
	}
	written := []string{d.page}
	err = os.WriteFile(d.page, page, 0o644)
	if plot != nil {
		name := strings.TrimSuffix(d.page, filepath.Ext(d.page)) + "-notified.svg"
		written = append(written, name)
		err = errors.Join(err, os.WriteFile(name, plot, 0o644))
	}
	fmt.Fprintln(progress, "robustness: written:", strings.Join(written, ", "))
	return err
}

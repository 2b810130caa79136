package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fairlock/fairlock/robustness/trial"
)

// markdown renders a table.
func markdown(head table.Row, rows ...table.Row) string {
	t := table.NewWriter()
	t.AppendHeader(head)
	t.AppendRows(rows)
	return t.RenderMarkdown()
}

// cutKinds returns the kinds of faults that cut a holder off, so that only its clock can
// notify it.
func cutKinds() []string {
	return []string{"holder-cut", "holder-requests-cut", "holder-replies-cut", "holders-member-cut"}
}

// runs returns the table of all runs, and for every lock how many trials there were and
// the worst figures.
func (d *Data) runs(services []Service) string {
	tried := []table.Row{}
	worst := []table.Row{}
	for _, s := range services {
		for _, lock := range s.locks() {
			y := d.tallied(s.Name, lock)
			if y.trials == 0 {
				tried = append(tried, table.Row{s.Title, code(lock), notRun})
				continue
			}
			tried = append(tried, table.Row{
				s.Title, code(lock), y.trials, y.hit, y.violated + y.missedViolated, y.faults, y.clients, len(y.seeds),
				y.grants, y.operations, y.lost, y.resource.Writes, y.resource.Refused, y.resource.Lost, y.resource.Unfenced,
			})
			cut := d.tallied(s.Name, lock, cutKinds()...)
			worst = append(worst, table.Row{
				s.Title, code(lock), cut.figure(trial.FaultToNotified), d.afterRemoval(s.Name, lock), cut.figure(trial.NotifiedBefore),
				y.figure(trial.Return), y.figure(trial.Progress), y.figure(trial.Stalled), y.starved,
			})
		}
	}
	return strings.Join([]string{
		d.about(),
		markdown(table.Row{"service", "lock", "trials", "hit", "with violations", "faults that hit", "clients", "seeds", "grants", "operations", "holds lost", "updates", "touches refused", "updates lost", "lost without a fence"}, tried...),
		"The last four are of the resources that the locks protect: updates that were accepted, touches that were refused by their token, updates that were accepted and are not in the final state, and the least number that a resource without a fence would have lost.",
		"The worst that was measured. The first three figures are of holders that were cut off, alone or with their server: *notified after removal* is by how much a holder was notified after the store had removed its entry, below 0 is before; *notified before next grant* below 0 is a holder that was notified after the next one held. A holder that was never notified has no figure: it is a violation of L2. " +
			"The last two show how far the others can be trusted: the longest time for which the harness did not get to run, and how many holders could not be notified for that reason, so that L2 does not judge them.",
		markdown(table.Row{"service", "lock", "cut to notified", "notified after removal", "least notified before next grant", "return after context's end", "longest progress", "longest stall", "starved"}, worst...),
	}, "\n\n")
}

// about returns the table of when and how the runs were made.
func (d *Data) about() string {
	if len(d.abouts) == 0 {
		return "Commit and machine of these runs are unknown."
	}
	all := slices.SortedStableFunc(slices.Values(d.abouts), func(a, b *About) int { return a.Began.Compare(b.Began) })
	var rows []table.Row
	for _, a := range all {
		took := "ended early"
		if a.Took > 0 {
			took = a.Took.Round(time.Second).String()
		}
		commit := a.Commit
		if commit == "" {
			commit = "unknown"
		}
		rows = append(rows, table.Row{
			a.Service, code(a.Lock), commit, a.Began.UTC().Format("2006-01-02 15:04"), took, a.CPUs, a.Load, a.Go + " " + a.System,
		})
	}
	return "Clients and servers share one machine.\n\n" +
		markdown(table.Row{"service", "lock", "commit", "began (UTC)", "took", "CPUs", "load at the end", "Go"}, rows...)
}

// ours returns the results of Fairlock's trials, for each kind of fault.
func (d *Data) ours(s Service) string {
	if d.tallied(s.Name, trial.Ours).trials == 0 {
		return notRun
	}
	head := table.Row{"fault", "trials", "hit"}
	for _, p := range Properties() {
		head = append(head, p)
	}
	forgetful := d.tallied(s.Name, trial.Ours).forgot > 0
	var rows []table.Row
	for _, kind := range d.kinds(s) {
		y := d.tallied(s.Name, trial.Ours, kind)
		if y.trials == 0 {
			rows = append(rows, table.Row{kind, notRun})
			continue
		}
		row := table.Row{kind, y.trials, y.hit}
		for _, p := range Properties() {
			row = append(row, y.broken[p])
		}
		row = append(row, y.faults, y.grants, y.lost, y.starved, y.bound())
		if forgetful {
			row = append(row, y.forgot)
		}
		rows = append(rows, row)
	}
	head = append(head, "faults", "grants", "holds lost", "starved", "rate")
	if forgetful {
		head = append(head, "entry forgotten")
	}
	return "Trials in which a property was violated. The last column is the highest rate of violations that is compatible with none in these trials, at 95 %: three divided by the trials that hit and were not *starved* (see above).\n\n" +
		markdown(head, rows...)
}

// transports returns the results of Fairlock's trials for each transport of the servers. The
// kind with the fewest hits shows whether every kind was aimed at these servers too. A soak is
// counted by itself, because there is one for each pass over the kinds.
func (d *Data) transports(s Service) string {
	var rows []table.Row
	for i, transport := range s.Transports {
		on := func(kinds ...string) *tally {
			return d.tallyOf(func(r *trial.Result) bool {
				same := r.Transport == transport || r.Transport == "" && i == 0
				return r.Service == s.Name && r.Lock == trial.Ours && same && (len(kinds) == 0 || slices.Contains(kinds, r.Kind))
			})
		}
		all := on()
		if all.trials == 0 {
			rows = append(rows, table.Row{transport, notRun})
			continue
		}
		fewest := math.MaxInt
		for _, kind := range d.kinds(s) {
			if kind != trial.Soak {
				fewest = min(fewest, on(kind).hit)
			}
		}
		rows = append(rows, table.Row{
			transport, all.trials, all.hit, fewest, on(trial.Soak).hit, all.violated + all.missedViolated,
			all.faults, all.grants, all.lost, all.starved, all.bound(),
		})
	}
	if len(rows) == 0 || d.tallied(s.Name, trial.Ours).trials == 0 {
		return ""
	}
	return "The same trials, by how the servers serve clients:\n\n" + markdown(table.Row{
		"transport", "trials", "hit", "fewest of a fault", "soak", "with violations", "faults", "grants", "holds lost", "starved", "rate",
	}, rows...)
}

// figures returns the worst figures of each kind of fault.
func (d *Data) figures(s Service) string {
	all := []trial.Figure{
		trial.FaultToNotified, trial.FaultToGone, trial.FaultToGrant, trial.NotifiedBefore, trial.Return, trial.Progress, trial.Leaderless, trial.Stalled,
	}
	head := table.Row{"fault"}
	for _, f := range all {
		head = append(head, heading(f))
	}
	var rows []table.Row
	for _, kind := range d.kinds(s) {
		y := d.tallied(s.Name, trial.Ours, kind)
		if y.trials == 0 {
			continue
		}
		row := table.Row{kind}
		for _, f := range all {
			row = append(row, y.figure(f))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return ""
	}
	return "The worst of each figure: the greatest, and of *notified before next* the least. *Leaderless* is how long the servers themselves reported no leader, after faults that are aimed at them: they could serve no client for that time, so a property that may need a failover has that time plus one second. Where another client has ended the hold (`holder-session-ended`, `holder-entry-deleted`) the holder cannot be notified before, " +
		"and in mixed work (`soak`) a holder that was notified releases by itself, so the next one holds at once.\n\n" +
		markdown(head, rows...)
}

// heading returns the name of a figure as the page shows it.
func heading(f trial.Figure) string {
	return strings.NewReplacer("struck", "fault", "told", "notified", "-", " ").Replace(string(f))
}

// compared returns how many trials of each kind had a violation, for Fairlock and the
// peers.
func (d *Data) compared(s Service) string {
	head := table.Row{"fault", code(trial.Ours)}
	for _, lock := range s.Peers {
		head = append(head, code(lock))
	}
	var rows []table.Row
	for _, kind := range d.kinds(s) {
		row := table.Row{kind}
		for _, lock := range s.locks() {
			row = append(row, d.tallied(s.Name, lock, kind).share())
		}
		rows = append(rows, row)
	}
	return "Trials with a violation, of those that hit, and the properties. A lock that makes no such request cannot lose the reply to it: that is *not run* too.\n\n" + markdown(head, rows...)
}

// commands returns the commands that repeat the trials of each cell.
func (d *Data) commands(s Service) string {
	var b strings.Builder
	for _, kind := range d.kinds(s) {
		for _, lock := range s.locks() {
			seeds := d.tallied(s.Name, lock, kind).seeds
			for _, seed := range slices.Sorted(maps.Keys(seeds)) {
				fmt.Fprintln(&b, command(s.Name, lock, kind, seeds[seed], seed))
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "<details><summary>The command for each cell</summary>\n\n```sh\n" + b.String() + "```\n\n</details>"
}

// command returns the command that runs as many trials of a kind with the same seed. The
// scripts are the same if they were those of the first round; the timing of servers and
// clients never is.
func command(service, lock, kind string, trials int, seed uint64) string {
	what := fmt.Sprintf("-each %d", trials)
	if kind == trial.Soak { // a soak comes at the end of each pass over the kinds
		what = "-soak 1m"
	}
	quoted := lock
	if strings.ContainsAny(lock, " ,") {
		quoted = "'" + lock + "'"
	}
	return fmt.Sprintf("go -C robustness run . -on %s -lock %s -kinds %s %s -seed %d",
		service, quoted, kind, what, seed)
}

func code(s string) string { return "`" + s + "`" }

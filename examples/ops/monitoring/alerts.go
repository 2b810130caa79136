package monitoring

import (
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/telemetry"
)

// runbook is the page with a section for each alert.
const runbook = "https://github.com/fairlock/fairlock/blob/main/docs/monitoring.md"

// Alert is an alerting rule of Prometheus.
type Alert struct {
	Name        string
	Expr        string // may have several lines
	For         string // how long Expr must have had a result
	Severity    string // critical: act now; warning: act today
	Summary     string
	Description string
}

// Runbook returns the address of the section about the alert.
func (a Alert) Runbook() string { return runbook + "#" + strings.ToLower(a.Name) }

// The labels by which rules group processes and locks. Several jobs may use the same lock;
// the metrics do not show which of them share a service.
const (
	perProcess = "job, instance"
	perLock    = "job, lock"
)

// turns selects the locks that processes hold for a short time each. A leader holds for
// months, and its followers wait.
const turns = `kind!="election"`

// Alerts returns the alerting rules. Their thresholds are a start: know what is normal for
// your locks.
func Alerts() []Alert { return append(aboutSessions(), aboutLocks()...) }

// aboutSessions returns the rules for the sessions and what ends with them.
func aboutSessions() []Alert {
	slack := metric(telemetry.SessionSlack)
	window := fmt.Sprintf("max by (%s) (max_over_time(%s[1h]))", perProcess, slack)
	// A session of an ensemble has the whole window only before its first heartbeats.
	usual := fmt.Sprintf("max by (%s) (quantile_over_time(0.9, %s[1h]))", perProcess, slack)
	return []Alert{
		{
			Name: "FairlockHoldsLost", Severity: "critical",
			Expr:        newlyRisen(metric(telemetry.HoldsLost), `reason!="closed"`, "10m", perProcess+", lock, reason") + " > 0",
			Summary:     "{{ $labels.instance }} lost the lock {{ $labels.lock }}",
			Description: "A hold of {{ $labels.lock }} ended before its release, with the reason {{ $labels.reason }}. The work under it was interrupted and may be half done.",
		},
		{
			Name: "FairlockSessionsLost", Severity: "warning",
			Expr:        risen(metric(telemetry.SessionsLost), `reason!="closed"`, "1h", perProcess) + " >= 2",
			Summary:     "{{ $labels.instance }} loses its sessions repeatedly",
			Description: "{{ $value | humanize }} sessions of {{ $labels.instance }} were lost within an hour. The service, the network or the process is too slow for the TTL.",
		},
		{
			Name: "FairlockNoSession", Severity: "critical", For: "2m",
			Expr:        fmt.Sprintf("sum by (%s) (%s) < 1", perProcess, metric(telemetry.Sessions)),
			Summary:     "{{ $labels.instance }} has no session",
			Description: "{{ $labels.instance }} has had no session at the service for two minutes. It can acquire no lock.",
		},
		{
			Name: "FairlockDeadlineNear", Severity: "warning",
			Expr:        fmt.Sprintf("min by (%s) (%s)\n  < 0.25 * %s", perProcess, slack, window),
			Summary:     "{{ $labels.instance }} is about to lose its locks",
			Description: "{{ $value | humanizeDuration }} are left to the deadline of {{ $labels.instance }}, less than a quarter of the trust window. Then all its holds are lost.",
		},
		{
			Name: "FairlockRenewalsLate", Severity: "warning", For: "5m",
			Expr:        fmt.Sprintf("%s\n  < 0.33 * %s", quantile("0.05", telemetry.RenewalSlack, "", "10m", perProcess), usual),
			Summary:     "Renewals of {{ $labels.instance }} arrive late",
			Description: "Of twenty renewals of {{ $labels.instance }}, one left {{ $value | humanizeDuration }} or less to the deadline, less than a third of what is left at best. The next slow minute loses locks.",
		},
		{
			Name: "FairlockRejoins", Severity: "warning",
			Expr:        newlyRisen(metric(telemetry.Rejoins), "", "30m", perLock) + " > 0",
			Summary:     "Waiters of {{ $labels.lock }} lost their places",
			Description: "Requests for {{ $labels.lock }} lost their places with the session, or by an operator, and went to the end of the queue.",
		},
	}
}

// aboutLocks returns the rules for the time that locks take.
func aboutLocks() []Alert {
	acquired, held := count(telemetry.AcquireDuration), count(telemetry.HoldDuration)
	waiting := fmt.Sprintf("sum by (%s) (%s) > 0", perLock, with(metric(telemetry.Waiters), turns))
	holding := fmt.Sprintf("sum by (%s) (%s) > 0", perLock, with(metric(telemetry.Holds), turns))
	gaveUp := newlyRisen(acquired, `outcome="gave_up"`, "15m", perLock)
	return []Alert{
		{
			Name: "FairlockStuckHold", Severity: "critical", For: "10m",
			Expr:        fmt.Sprintf("(%s)\n  and (%s)\n  unless %s", waiting, holding, moved(held, turns, "5m", perLock)),
			Summary:     "A hold of {{ $labels.lock }} does not end",
			Description: "Requests wait for {{ $labels.lock }}, and no hold of it has ended for 15 minutes. The holder works for long, is stuck, or is in a deadlock.",
		},
		{
			Name: "FairlockNoGrant", Severity: "warning", For: "10m",
			Expr:        fmt.Sprintf("(%s)\n  unless (%s)\n  unless %s", waiting, holding, moved(acquired, turns+`, outcome="granted"`, "5m", perLock)),
			Summary:     "{{ $labels.lock }} is granted to no waiter",
			Description: "Requests wait for {{ $labels.lock }}, no process of {{ $labels.job }} holds it, and none was granted it for 15 minutes. A process of another job holds it, or an entry without a session blocks the queue.",
		},
		{
			Name: "FairlockLongWait", Severity: "warning", For: "10m",
			Expr:        quantile("0.9", telemetry.AcquireDuration, turns+`, outcome="granted"`, "10m", perLock) + " > 60",
			Summary:     "{{ $labels.lock }} is granted after more than a minute",
			Description: "One of ten requests for {{ $labels.lock }} waited for {{ $value | humanizeDuration }} or longer.",
		},
		{
			Name: "FairlockHandOffSlow", Severity: "warning", For: "10m",
			Expr:        quantile("0.9", telemetry.HandoffDuration, "", "10m", perLock) + " > 1",
			Summary:     "The service is slow to hand {{ $labels.lock }} over",
			Description: "One of ten hand-offs of {{ $labels.lock }} took {{ $value | humanizeDuration }} or longer, from the release to the next grant. No process holds the lock meanwhile.",
		},
		{
			Name: "FairlockGiveUps", Severity: "warning", For: "5m",
			Expr:        fmt.Sprintf("(%s > 5)\n> 0.1 * %s", gaveUp, newlyRisen(acquired, "", "15m", perLock)),
			Summary:     "Many requests for {{ $labels.lock }} give up",
			Description: "More than a tenth of the requests for {{ $labels.lock }} ended with their contexts, without a grant.",
		},
		{
			Name: "FairlockRefused", Severity: "warning", For: "5m",
			Expr:        risen(acquired, `outcome="refused"`, "5m", perLock) + " > 5",
			Summary:     "Requests for {{ $labels.lock }} are refused",
			Description: "{{ $value | humanize }} requests for {{ $labels.lock }} failed within 5 minutes with an error that waiting does not cure: a denied login, a full store, an invalid argument, a closed session.",
		},
		{
			Name: "FairlockReleasesPending", Severity: "warning",
			Expr:        newlyRisen(held, `end="pending"`, "15m", perLock) + " > 5",
			Summary:     "Releases of {{ $labels.lock }} are not acknowledged in time",
			Description: "The service did not acknowledge {{ $value | humanize }} releases of {{ $labels.lock }} within their second. Each is finished in the background, and the next holder waits until then.",
		},
	}
}

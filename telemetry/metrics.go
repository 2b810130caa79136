package telemetry

// ID identifies a metric: it is the index of the metric in what Metrics returns.
type ID int

// The metrics.
const (
	AcquireDuration ID = iota
	HoldDuration
	Waiters
	Holds
	HandoffDuration
	HoldsLost
	Rejoins
	Sessions
	SessionsLost
	SessionSlack
	RenewalSlack
)

// Kind is how a metric is measured.
type Kind string

// The kinds.
const (
	Counter       Kind = "counter"         // only rises
	UpDownCounter Kind = "up-down counter" // rises and falls; a gauge in Prometheus
	Gauge         Kind = "gauge"           // read when the metrics are collected
	Histogram     Kind = "histogram"
)

// Attribute is the name of an attribute in OpenTelemetry.
type Attribute string

// The attributes.
const (
	LockName Attribute = "fairlock.lock.name" // as Options show it
	LockKind Attribute = "fairlock.lock.kind" // the recipe: "mutex"
	LockMode Attribute = "fairlock.lock.mode" // a session.Mode
	Outcome  Attribute = "fairlock.outcome"   // a session.Outcome, with an underscore
	HoldEnd  Attribute = "fairlock.hold.end"  // "released", "pending" or "lost"
	Reason   Attribute = "fairlock.reason"    // a session.Reason
)

// Label returns the name of the attribute in Prometheus.
func (a Attribute) Label() string {
	switch a {
	case LockName:
		return "lock"
	case LockKind:
		return "kind"
	case LockMode:
		return "mode"
	case Outcome:
		return "outcome"
	case HoldEnd:
		return "end"
	case Reason:
		return "reason"
	}
	return ""
}

// The values of HoldEnd.
const (
	EndReleased = "released" // the service has acknowledged the release
	EndPending  = "pending"  // Unlock returned session.ErrReleasePending
	EndLost     = "lost"
)

// Values are the values of attributes. Those that a metric does not have are empty.
type Values struct {
	Name, Kind, Mode, Outcome, End, Reason string
}

// Of returns the value of an attribute.
func (v Values) Of(a Attribute) string {
	switch a {
	case LockName:
		return v.Name
	case LockKind:
		return v.Kind
	case LockMode:
		return v.Mode
	case Outcome:
		return v.Outcome
	case HoldEnd:
		return v.End
	case Reason:
		return v.Reason
	}
	return ""
}

// Metric describes a metric.
type Metric struct {
	ID         ID
	Name       string // in OpenTelemetry
	Prometheus string // the name in Prometheus
	Kind       Kind
	Unit       string // in OpenTelemetry's notation (UCUM); a histogram's is always "s"
	Help       string
	Attributes []Attribute
	Buckets    []float64 // the upper bounds of a histogram, in seconds
}

// Metrics returns the metrics, each at the index that is its ID. The caller may change
// what is returned.
func Metrics() []Metric {
	return []Metric{
		{
			Name: "fairlock.acquire.duration", Prometheus: "fairlock_acquire_duration_seconds", Kind: Histogram, Unit: "s",
			Help:       "Time from the start of a request for a lock to its outcome.",
			Attributes: []Attribute{LockName, LockKind, LockMode, Outcome}, Buckets: long(),
		},
		{
			ID: HoldDuration, Name: "fairlock.hold.duration", Prometheus: "fairlock_hold_duration_seconds", Kind: Histogram, Unit: "s",
			Help:       "Time from the grant of a lock to its release or loss.",
			Attributes: []Attribute{LockName, LockKind, LockMode, HoldEnd}, Buckets: long(),
		},
		{
			ID: Waiters, Name: "fairlock.waiters", Prometheus: "fairlock_waiters", Kind: UpDownCounter, Unit: "{request}",
			Help:       "Requests of this process that have no outcome yet.",
			Attributes: []Attribute{LockName, LockKind},
		},
		{
			ID: Holds, Name: "fairlock.holds", Prometheus: "fairlock_holds", Kind: UpDownCounter, Unit: "{hold}",
			Help:       "Locks that this process holds.",
			Attributes: []Attribute{LockName, LockKind},
		},
		{
			ID: HandoffDuration, Name: "fairlock.handoff.duration", Prometheus: "fairlock_handoff_duration_seconds", Kind: Histogram, Unit: "s",
			Help:       "Time from the release of a lock to the grant of the request that waited for it, with what MinHold adds, if both are of this process; not of semaphores.",
			Attributes: []Attribute{LockName}, Buckets: short(),
		},
		{
			ID: HoldsLost, Name: "fairlock.holds.lost", Prometheus: "fairlock_holds_lost_total", Kind: Counter, Unit: "{hold}",
			Help:       "Holds that ended before their release.",
			Attributes: []Attribute{LockName, LockKind, Reason},
		},
		{
			ID: Rejoins, Name: "fairlock.rejoins", Prometheus: "fairlock_rejoins_total", Kind: Counter, Unit: "{request}",
			Help:       "Times that a waiting request lost its place and went to the end of the queue.",
			Attributes: []Attribute{LockName, LockKind},
		},
		{
			ID: Sessions, Name: "fairlock.sessions", Prometheus: "fairlock_sessions", Kind: UpDownCounter, Unit: "{session}",
			Help: "Open sessions at the service.",
		},
		{
			ID: SessionsLost, Name: "fairlock.sessions.lost", Prometheus: "fairlock_sessions_lost_total", Kind: Counter, Unit: "{session}",
			Help:       "Sessions at the service that ended other than by Close.",
			Attributes: []Attribute{Reason},
		},
		{
			ID: SessionSlack, Name: "fairlock.session.slack", Prometheus: "fairlock_session_slack_seconds", Kind: Gauge, Unit: "s",
			Help: "Time from now to the deadline of a session if no further renewal is acknowledged: the least of all open sessions. There is no value if none is open.",
		},
		{
			ID: RenewalSlack, Name: "fairlock.renewal.slack", Prometheus: "fairlock_renewal_slack_seconds", Kind: Histogram, Unit: "s",
			Help: "Time that was left to the deadline of a session when a renewal was acknowledged.", Buckets: slack(),
		},
	}
}

// long are buckets for what may take no time or an hour.
func long() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
}

// short are buckets for what takes a few requests to the service.
func short() []float64 {
	return []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
}

// slack are buckets for parts of a trust window, which is 13.5 s unless options are set.
// In a healthy system nearly all values are the same. A quantile of values in one bucket is
// little more than its lower bound, so from 0.5 s on no bound is more than 5/3 of the one
// below it. They are for TTLs of up to ten minutes.
func slack() []float64 {
	return []float64{0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 7.5, 10, 15, 20, 30, 45, 60, 100, 150, 250, 400}
}

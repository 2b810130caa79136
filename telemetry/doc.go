// Package telemetry turns the hooks of a Session into metrics. It depends on no library
// of metrics: packages telemetry/prometheus and telemetry/otel, modules of their own,
// bring its metrics to Prometheus and OpenTelemetry, under the same names.
//
// Metrics lists the metrics. Hooks counts and measures what happens, and has a Recorder
// show it:
//
//	o := &session.Options{Hooks: telemetry.Hooks(recorder, nil)}
//
// One value of Hooks serves any number of Sessions. Join puts it next to other hooks.
//
// # What the values mean
//
// All values are about this process: what its own requests, holds and sessions did.
// Reading them sends nothing to the service, so they can be read while it is down.
//
// The gauges of waiters, holds and sessions are exact, also while the hooks are slow:
// the Session drops none of the reports that they are made of. It may drop others if
// more than 10 000 wait, and logs that. Then fairlock.rejoins is too low, a renewal is
// missing in fairlock.renewal.slack, and fairlock.session.slack is too low until the
// next renewal. See session.Hooks.
//
// # Names of locks
//
// Each name of a lock is a value of an attribute, and a database of metrics pays for
// each of them. So at most Options.MaxNames names get values of their own, 100 unless it
// is set: the names that come first. All later ones share the value Other. Programs that
// derive names from data, such as "orders/4711", should map them with Options.Name.
package telemetry

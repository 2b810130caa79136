package telemetry

import (
	"context"

	"github.com/fairlock/fairlock/session"
)

// Join returns hooks that call each of several in turn. Started gives each the context
// that the one before returned, and Trace returns the first text that is not empty. A hook
// that none of them sets is not set, so it costs nothing.
func Join(all ...session.Hooks) session.Hooks {
	type hook = func(context.Context, session.Event)
	return session.Hooks{
		Started:        startedInTurn(all),
		Trace:          firstTrace(all),
		Joined:         inTurn(all, func(h session.Hooks) hook { return h.Joined }),
		Position:       inTurn(all, func(h session.Hooks) hook { return h.Position }),
		Rejoined:       inTurn(all, func(h session.Hooks) hook { return h.Rejoined }),
		Ended:          inTurn(all, func(h session.Hooks) hook { return h.Ended }),
		Released:       inTurn(all, func(h session.Hooks) hook { return h.Released }),
		Lost:           inTurn(all, func(h session.Hooks) hook { return h.Lost }),
		SessionOpened:  ofSessions(all, func(h session.Hooks) func(session.Event) { return h.SessionOpened }),
		SessionRenewed: ofSessions(all, func(h session.Hooks) func(session.Event) { return h.SessionRenewed }),
		SessionLost:    ofSessions(all, func(h session.Hooks) func(session.Event) { return h.SessionLost }),
		SessionClosed:  ofSessions(all, func(h session.Hooks) func(session.Event) { return h.SessionClosed }),
	}
}

// startedInTurn is inTurn for Started.
func startedInTurn(all []session.Hooks) func(context.Context, session.Event) context.Context {
	var set []func(context.Context, session.Event) context.Context
	for _, h := range all {
		if h.Started != nil {
			set = append(set, h.Started)
		}
	}
	if len(set) <= 1 {
		return only(set)
	}
	return func(ctx context.Context, e session.Event) context.Context {
		for _, f := range set {
			derived := f(ctx, e)
			if derived != nil {
				ctx = derived //nolint:fatcontext // each hook may derive one
			}
		}
		return ctx
	}
}

// firstTrace is inTurn for Trace.
func firstTrace(all []session.Hooks) func(context.Context) string {
	var set []func(context.Context) string
	for _, h := range all {
		if h.Trace != nil {
			set = append(set, h.Trace)
		}
	}
	if len(set) <= 1 {
		return only(set)
	}
	return func(ctx context.Context) string {
		for _, f := range set {
			text := f(ctx)
			if text != "" {
				return text
			}
		}
		return ""
	}
}

// inTurn returns a hook that calls those of all that are set.
func inTurn(all []session.Hooks, of func(session.Hooks) func(context.Context, session.Event)) func(context.Context, session.Event) {
	var set []func(context.Context, session.Event)
	for _, h := range all {
		f := of(h)
		if f != nil {
			set = append(set, f)
		}
	}
	if len(set) <= 1 {
		return only(set)
	}
	return func(ctx context.Context, e session.Event) {
		for _, f := range set {
			f(ctx, e)
		}
	}
}

// ofSessions is inTurn for the hooks of service sessions.
func ofSessions(all []session.Hooks, of func(session.Hooks) func(session.Event)) func(session.Event) {
	var set []func(session.Event)
	for _, h := range all {
		f := of(h)
		if f != nil {
			set = append(set, f)
		}
	}
	if len(set) <= 1 {
		return only(set)
	}
	return func(e session.Event) {
		for _, f := range set {
			f(e)
		}
	}
}

// only returns the hook of a list with at most one.
func only[F any](set []F) (f F) {
	if len(set) > 0 {
		f = set[0]
	}
	return f
}

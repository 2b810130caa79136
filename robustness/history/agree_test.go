package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/robustness/history"
)

// TestOraclesAgree takes histories of which nothing is known: most are wrong.
// Where one of the two looks for an order of all operations and the other only at
// ends of holds, both must come to the same result.
func TestOraclesAgree(t *testing.T) {
	const times = 30 // what rapid does by itself is enough for a property that fails often
	verdicts := map[bool]int{}
	property := func(t *rapid.T) {
		line := rapid.SampledFrom(lines()).Draw(t, "line")
		order := rapid.SampledFrom([]string{"tokens", "places", "both", "none"}).Draw(t, "order")
		var attempts []history.Attempt
		for range rapid.IntRange(1, 7).Draw(t, "holds") {
			attempts = append(attempts, anyHold(t, line, order))
		}
		for i := range attempts {
			if attempts[i].Nested {
				inside(&attempts[i], attempts[rapid.IntRange(0, len(attempts)-1).Draw(t, "inside of")])
			}
		}

		modelled := history.Model([]history.Line{line}, attempts, time.Minute)
		swept, _ := history.Sweep([]history.Line{line}, attempts, time.Hour, 0)

		var held []history.Violation // what a model can see
		for _, v := range swept {
			if v.Property == "S1" || v.Property == "S2" || v.Property == "S4" {
				held = append(held, v)
			}
		}
		verdicts[len(held) == 0]++
		cut := history.ModelInPieces(line, attempts, time.Minute, 1)
		if (len(modelled) == 0) != (len(held) == 0) || (len(modelled) == 0) != (len(cut) == 0) {
			t.Logf("model: %v", modelled)
			t.Logf("model in pieces: %v", cut)
			t.Logf("sweep: %v", held)
			t.Fatal("they do not agree")
		}
	}
	for range times {
		rapid.Check(t, property)
	}
	t.Logf("%d were in order, %d were not", verdicts[true], verdicts[false])
	require.NotZero(t, verdicts[true])
	require.NotZero(t, verdicts[false])
}

// inside puts a hold into another one, which its client had got by then.
func inside(a *history.Attempt, outer history.Attempt) {
	a.Token = outer.Token
	later := max(0, outer.Got-a.Asked)
	for _, at := range []*history.Instant{&a.Asked, &a.Got, &a.Held, &a.Told, &a.Over, &a.Back, &a.Done} {
		if *at != 0 {
			*at += later
		}
	}
}

// anyHold is a hold whose times are in order, and nothing else.
func anyHold(t *rapid.T, line history.Line, order string) history.Attempt {
	step := func(what string) history.Instant { return history.Instant(rapid.IntRange(0, 12).Draw(t, what)) }
	a := history.Attempt{Line: line.Name, Client: rapid.IntRange(0, 2).Draw(t, "client"), Weight: 1}
	a.Asked = 1 + 2*step("asked")
	a.Got = a.Asked + step("got")
	if order == "tokens" || order == "both" {
		a.Token = rapid.Int64Range(1, 40).Draw(t, "token")
	}
	switch order {
	case "places":
		a.Place = rapid.Int64Range(1, 40).Draw(t, "place")
	case "both":
		a.Place = a.Token + rapid.Int64Range(0, 1).Draw(t, "place after token")
	}
	switch line.Recipe {
	case history.Mutex:
	case history.Reentrant:
		a.Nested = a.Token != 0 && rapid.Bool().Draw(t, "nested")
	case history.ReadWrite:
		a.Shared = rapid.Bool().Draw(t, "shared")
	case history.Semaphore:
		a.Weight = rapid.Int64Range(1, 5).Draw(t, "weight")
	}
	last := a.Got
	if rapid.Bool().Draw(t, "asked whether held") {
		last += step("held")
		a.Held = last
	}
	switch rapid.IntRange(0, 3).Draw(t, "end") {
	case 0:
		a.Back = last + step("back")
		a.Done = a.Back + step("done")
		a.Outcome = rapid.SampledFrom([]history.Outcome{history.Given, history.Given, history.Pending, history.Lost}).Draw(t, "outcome")
	case 1:
		a.Told = last + step("told")
		a.Back = a.Told + step("back")
		a.Done = a.Back + step("done")
		a.Outcome = rapid.SampledFrom([]history.Outcome{history.Lost, history.Pending, history.Given}).Draw(t, "outcome")
	case 2:
		a.Over = last + step("over")
	}
	if a.Held != 0 && rapid.IntRange(0, 5).Draw(t, "late") == 0 {
		a.Held += 8 // perhaps after its client has begun to give it back
	}
	return a
}

package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/robustness/history"
)

// TestOraclesAgree judges random histories, most of which are wrong. The model
// searches for an order of all operations, and the sweep compares only the ends of
// holds; both must reach the same result.
func TestOraclesAgree(t *testing.T) {
	const times = 30 // rapid's own number of checks is enough only for a property that fails often
	verdicts := map[bool]int{}
	property := func(t *rapid.T) {
		queue := rapid.SampledFrom(queues()).Draw(t, "queue")
		order := rapid.SampledFrom([]string{"tokens", "places", "both", "none"}).Draw(t, "order")
		var attempts []history.Attempt
		for range rapid.IntRange(1, 7).Draw(t, "holds") {
			attempts = append(attempts, anyHold(t, queue, order))
		}
		for i := range attempts {
			if attempts[i].Nested {
				inside(&attempts[i], attempts[rapid.IntRange(0, len(attempts)-1).Draw(t, "inside of")])
			}
		}

		modelled := history.Model([]history.Queue{queue}, attempts, time.Minute)
		swept, _ := history.Sweep([]history.Queue{queue}, attempts, time.Hour, 0)

		var held []history.Violation // of the properties that the model checks
		for _, v := range swept {
			if v.Property == "S1" || v.Property == "S2" || v.Property == "S4" {
				held = append(held, v)
			}
		}
		verdicts[len(held) == 0]++
		cut := history.ModelInPieces(queue, attempts, time.Minute, 1)
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
	t.Logf("%d histories were correct, %d were not", verdicts[true], verdicts[false])
	require.NotZero(t, verdicts[true])
	require.NotZero(t, verdicts[false])
}

// inside nests a hold in another one, and moves it to a time after that grant.
func inside(a *history.Attempt, outer history.Attempt) {
	a.Token = outer.Token
	later := max(0, outer.Got-a.Asked)
	for _, at := range []*history.Instant{&a.Asked, &a.Got, &a.Held, &a.Told, &a.Over, &a.Back, &a.Done} {
		if *at != 0 {
			*at += later
		}
	}
}

// anyHold draws a hold whose times are in order, and which need not be correct otherwise.
func anyHold(t *rapid.T, queue history.Queue, order string) history.Attempt {
	step := func(what string) history.Instant { return history.Instant(rapid.IntRange(0, 12).Draw(t, what)) }
	a := history.Attempt{Queue: queue.Name, Client: rapid.IntRange(0, 2).Draw(t, "client"), Weight: 1}
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
	switch queue.Recipe {
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
		a.Outcome = rapid.SampledFrom([]history.Outcome{history.Released, history.Released, history.Pending, history.Lost}).Draw(t, "outcome")
	case 1:
		a.Told = last + step("told")
		a.Back = a.Told + step("back")
		a.Done = a.Back + step("done")
		a.Outcome = rapid.SampledFrom([]history.Outcome{history.Lost, history.Pending, history.Released}).Draw(t, "outcome")
	case 2:
		a.Over = last + step("over")
	}
	if a.Held != 0 && rapid.IntRange(0, 5).Draw(t, "late") == 0 {
		a.Held += 8 // perhaps after its client has begun to release it
	}
	return a
}

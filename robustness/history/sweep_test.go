package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/history"
)

// turns returns three holds of a mutex, of which the second is lost. Its client is
// notified 3 ms before the third is granted.
func turns() []history.Attempt {
	const ms = millisecond
	return []history.Attempt{
		{Queue: "m", Client: 1, Asked: 1 * ms, Got: 2 * ms, Held: 5 * ms, Back: 6 * ms, Done: 8 * ms, Outcome: history.Released, Token: 10, Place: 10},
		{Queue: "m", Client: 2, Asked: 2 * ms, Got: 7 * ms, Held: 15 * ms, Told: 17 * ms, Over: 19 * ms, Token: 12, Place: 12},
		{Queue: "m", Client: 3, Asked: 3 * ms, Got: 20 * ms, Held: 30 * ms, Back: 31 * ms, Done: 32 * ms, Outcome: history.Released, Token: 17, Place: 17},
		{Queue: "m", Client: 4, Asked: 5 * ms, Ends: 9 * ms, Got: 13 * ms, Failed: "context deadline exceeded"},
	}
}

func sweepTurns(attempts []history.Attempt) ([]history.Violation, history.Figures) {
	return history.Sweep([]history.Queue{{Name: "m", Recipe: history.Mutex}}, attempts, bound, second)
}

func TestSweepCounts(t *testing.T) {
	found, figures := sweepTurns(turns())

	assert.Empty(t, found)
	assert.Equal(t, history.Figures{
		Grants: 3, Failed: 1, Lost: 1,
		Margin: 3 * time.Millisecond, Margins: 1,
		Return: 4 * time.Millisecond,
	}, figures)
}

// The margin is negative for a client that was notified too late. A process that did not
// run is not judged.
func TestSweepJudgesOnlyRunningProcessesByNotification(t *testing.T) {
	late := turns()
	late[1].Told, late[1].Over = 21*millisecond, 22*millisecond

	found, figures := sweepTurns(late)

	require.Len(t, found, 1)
	assert.Equal(t, history.Violation{
		Property: "L2", Oracle: "sweep", Queue: "m",
		Text: "client 2 lost its hold (token 12) to client 3 (token 17), and was notified 1ms after it",
	}, found[0])
	assert.Equal(t, -time.Millisecond, figures.Margin)

	late[1].Stopped = true

	found, figures = sweepTurns(late)

	assert.Empty(t, found)
	assert.Zero(t, figures.Margins)
}

// A client that knows of its loss and releases all the same has not relied on the hold
// until then, even if the release is acknowledged.
func TestSweepIgnoresReleaseAfterAKnownLoss(t *testing.T) {
	all := turns()
	all[1].Back, all[1].Done, all[1].Outcome = 25*millisecond, 26*millisecond, history.Released

	found, _ := sweepTurns(all)

	assert.Empty(t, found)

	all[1].Told, all[1].Over = 0, 0

	found, _ = sweepTurns(all)

	require.Len(t, found, 1)
	assert.Equal(t, "S1", found[0].Property)
}

func TestSweepCountsOneHoldOnce(t *testing.T) {
	all := turns()
	all[0].Back, all[0].Done = 100*millisecond, 101*millisecond

	found, _ := sweepTurns(all)

	require.Len(t, found, 1, "although two other holds were granted meanwhile")
	assert.Equal(t, "client 1 relied on its hold (token 10) for 93ms after client 2 had been granted (token 12)", found[0].Text)
}

// While permits are left, a lost hold whose client was never notified is no violation.
func TestSweepJudgesOnlyPermitsThatAGrantNeeded(t *testing.T) {
	const ms = millisecond
	queue := []history.Queue{{Name: "s", Recipe: history.Semaphore, Limit: 3}}
	forgotten := history.Attempt{Queue: "s", Client: 1, Weight: 1, Asked: 1 * ms, Got: 2 * ms, Held: 3 * ms, Token: 1}
	two := history.Attempt{Queue: "s", Client: 2, Weight: 2, Asked: 4 * ms, Got: 5 * ms, Held: 6 * ms, Back: 7 * ms, Done: 8 * ms, Outcome: history.Released, Token: 2}
	three := history.Attempt{Queue: "s", Client: 3, Weight: 3, Asked: 9 * ms, Got: 10 * ms, Held: 11 * ms, Token: 3}

	found, _ := history.Sweep(queue, []history.Attempt{forgotten, two}, bound, 0)

	assert.Empty(t, found)

	found, _ = history.Sweep(queue, []history.Attempt{forgotten, two, three}, bound, 0)

	require.Len(t, found, 1)
	assert.Equal(t, "client 1 lost its hold (token 1) to client 3 (token 3), and was never notified", found[0].Text)
}

// A writer's call returns late, when no client reads any more. But a reader behind it
// had been granted before, so the writer had held while the first reader read.
func TestNewerGrantProvesAnOlderOne(t *testing.T) {
	const ms = millisecond
	queue := []history.Queue{{Name: "rw", Recipe: history.ReadWrite}}
	all := []history.Attempt{
		{Queue: "rw", Client: 1, Shared: true, Asked: 1 * ms, Got: 2 * ms, Held: 20 * ms, Token: 1},
		{Queue: "rw", Client: 2, Asked: 3 * ms, Got: 30 * ms, Token: 2, Stopped: true},
		{Queue: "rw", Client: 3, Shared: true, Asked: 4 * ms, Got: 10 * ms, Token: 3},
	}

	found, _ := history.Sweep(queue, all, bound, 0)

	require.NotEmpty(t, found)
	assert.Equal(t, "client 1 relied on its hold (token 1) for 10ms after client 2 had been granted (token 2)", found[0].Text)
	assert.Len(t, history.Model(queue, all, time.Minute), 1)

	all[2].Got = 25 * ms
	all[0].Told = 21 * ms

	found, _ = history.Sweep(queue, all, bound, 0)

	assert.Empty(t, found)
	assert.Empty(t, history.Model(queue, all, time.Minute))
}

// TestAnAnswerIsNoNotification: a hold that has answered "over" in time, and whose context
// ends after the next grant, has notified nobody in time.
func TestAnAnswerIsNoNotification(t *testing.T) {
	late := turns()
	late[1].Over, late[1].Told = 17*millisecond, 21*millisecond

	found, figures := sweepTurns(late)

	require.Len(t, found, 1)
	assert.Equal(t, "L2", found[0].Property)
	assert.Equal(t, -time.Millisecond, figures.Margin)

	late[1].Back, late[1].Done, late[1].Outcome = 19*millisecond, 20*millisecond, history.Lost

	found, _ = sweepTurns(late)

	assert.Empty(t, found, "its client asked, and was releasing by then")
}

package drivertest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/membackend/memtest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/drivertest"
)

// defects are planted into a sound backend one at a time. Each must turn one
// story red, the one that is there for it.
var defects = map[string]struct {
	story string
	plant func(b *badBackend)
}{
	"join counts one too few ahead":         {"order/PlacesRiseInTheOrderOfJoining", aheadTooFew},
	"join knows nobody who is ahead":        {"order/JoinsAtOnceStandInOneOrder", knowsWrong},
	"join takes the first for the nearest":  {"order/PlacesRiseInTheOrderOfJoining", nearWrong},
	"tokens do not rise":                    {"order/TokensRiseAfterTheLineWasEmpty", tokenStays},
	"join looks when it was made":           {"order/AnEntryDeletedBeforeItsAnswerHasNotBeenFirst", looksLate},
	"join looks before it writes":           {"order/AloneItTakesOneRoundTrip", looksFirst},
	"join looks first at a limit":           {"order/AloneItTakesOneRoundTripOfAnyKind", looksFirst},
	"one entry for a session":               {"order/TwoEntriesOfASessionAreTwo", oneEntry},
	"if-empty writes":                       {"order/IfEmptyWritesNothingBehindOthers", ifEmptyWrites},
	"leave says nil when gone":              {"leave/LeaveSaysGoneAfterADeletionByHand", leaveNil},
	"leave goes by the key alone":           {"leave/LeaveNeverDeletesALaterEntry", leaveByKey},
	"leave finds every probe alive":         {"leave/LeaveProbesAnotherEntry", probeLies},
	"leave takes its own deletion for gone": {"lost/ALeaveCutShortIsFinishedByTheNext", leaveForgets},
	"look is old":                           {"look/LookIsNotOlderThanAsked", lookOld},
	"look shows an entry that is gone":      {"look/LookShowsThatTheOwnEntryIsMissing", lookHidesAbsence},
	"look says complete":                    {"look/LookShowsTheNearest", lookComplete},
	"look shows who is behind":              {"look/LookShowsTheLineUptoAPlace", lookBehind},
	"watch loses gone":                      {"watch/WatchTellsALeave", loses(driver.Gone)},
	"watch is never armed":                  {"watch/WatchTellsADeletionByHand", loses(driver.Armed)},
	"watch is armed since ever":             {"watch/WatchOnAnEntryThatIsGoneShowsIt", armedSinceEver},
	"watch loses changes":                   {"watch/WatchTellsChangesToWhoWantsThem", loses(driver.Changed)},
	"watch swallows broken":                 {"watch/WatchTellsOnAfterACut", loses(driver.Broken)},
	"watch is dead after a cut":             {"watch/WatchMissesNothingOverACut", deadAfterCut},
	"watch forgets since":                   {"watch/WatchSinceTellsWhatWentBefore", sinceForgotten},
	"cancel is ignored":                     {"watch/ACanceledWatchIsSilent", cancelIgnored},
	"a release is not told":                 {"tell/AReleaseIsTold", releasing(false)},
	"who did not ask is told":               {"tell/WhoDidNotAskIsNotTold", tellsEverybody},
	"a waiter leaves word":                  {"tell/AWaitersLeaveIsNoRelease", releasing(true)},
	"an operator leaves word":               {"tell/ADeletionByHandIsNoRelease", heldBy(true)},
	"a dead session leaves word":            {"tell/AnExpiryIsNoRelease", heldBy(false)},
	"close leaves word":                     {"tell/ACloseIsNoRelease", closeReleases},
	"an attempt leaves word":                {"tell/AnAttemptToReleaseIsNoRelease", attemptSpeaks},
	"a word counts for its line":            {"tell/TheWordOfOneEntryIsNotThatOfAnother", wordOf(func(r driver.Ref) string { return r.Line })},
	"a word counts for its key":             {"tell/TheWordOfOneEntryIsNotThatOfAnother", wordOf(func(r driver.Ref) string { return r.Key })},
	"a lost word counts":                    {"tell/JoinsAfterAReleaseDoNotMakeItWrong", lostWord},
	"a retry leaves word of another":        {"tell/AReleaseSurvivesALostReply", retrySpeaks},
	"own events come late":                  {"events/TheOwnEndComesBeforeALaterEndAhead", ownLate},
	"leave overtakes what it has told":      {"events/AnAnswerToALeaveIsDatedOrComesBehindEarlierEvents", leaveOvertakes},
	"leave has no place among the events":   {"events/AnAnswerToALeaveIsDatedOrComesBehindEarlierEvents", leaveUndated},
	"callbacks run together":                {"events/CallbacksRunOneAtATime", callbacksTogether},
	"proof counts from receipt":             {"expiry/ProofsCountFromSending", proofFromReceipt},
	"proof promises more":                   {"expiry/ProofsGoOn", proofPromisesMore},
	"proof without an answer":               {"expiry/NothingIsProvenWhileCutOff", proofUnanswered},
	"prove waits for its turn":              {"expiry/ProveBringsAProofNow", proveIgnored},
	"gone is swallowed":                     {"expiry/AnEndFromOutsideIsReported", goneSwallowed},
	"abandon revokes":                       {"expiry/AbandonLeavesEntriesToExpire", abandonRevokes},
	"abandon goes on":                       {"expiry/AbandonStopsProofs", abandonGoesOn},
	"close leaves entries":                  {"expiry/CloseRemovesAtOnce", closeLeaves},
	"unknown is told as not done":           {"cancel/AnUnknownOutcomeIsCalledUnknown", pendingHidden},
	"settle lies":                           {"cancel/AJoinCanceledWhileCutRepliesIsSettledAfterIt", settleLies},
	"context is ignored":                    {"cancel/CallsReturnWhileCutBoth", ctxIgnored},
	"retry makes a second entry":            {"lost/AJoinSurvivesALostReply", retryDoubles},
	"retry takes itself for another":        {"lost/AJoinIfEmptySurvivesABrokenReply", takenByItself},
	"settle has no fence":                   {"late/ALateJoinAfterSettleMakesNoEntry", settleUnfenced},
	"foreign entries are hidden":            {"foreign/ForeignEntriesCountAndAreMarked", foreignHidden},
	"foreign entries are not marked":        {"foreign/ForeignEntriesCountAndAreMarked", foreignUnmarked},
	"no session is not told":                {"foreign/AnEntryWithoutASessionIsMarked", unleasedUnmarked},
	"a broken value loses the entry":        {"foreign/ABrokenValueNeverBreaksTheLine", brokenDropped},
	"lines are prefixes":                    {"names/NamesThatBeginAlikeNeverMeet", linesMeet},
	"names are not sorted":                  {"names/NamesAreListedSortedByPrefix", namesUnsorted},
	"several joins are not one":             {"several/JoinsOfSeveralLinesStandInOneOrder", joinsOneByOne},
	"a join of several is not all":          {"several/NothingIsMadeIfOneLineIsTaken", joinsOneByOne},
	"too many lines are joined in parts":    {"several/AsManyLinesAsTheProfileSays", joinsMore},
	"settle of several lies":                {"several/AJoinOfSeveralCanceledWhileCutRepliesIsSettled", severalSettleLies},
	"leave of several finds itself gone":    {"several/SeveralLinesSurviveALostReply", retryFindsGone},
	"leave of several marks none":           {"several/EntriesThatWereGoneAreMarked", leavesUnmarked},
	"share of nothing is nil":               {"change/ShareOfAnEntryThatIsGoneSaysSo", changeGoneNil},
	"share is dated too early":              {"share/TheAnswerSaysByWhenItShows", shareEarly},
	"share works once":                      {"change/ShareCutShortIsFinishedByTheNext", shareOnce},
	"claim forgets its number":              {"change/ClaimTwiceIsLikeOnce", claimNext},
	"admit does nothing":                    {"change/AdmitTwiceIsLikeOnce", admitIgnored},
	"record does nothing":                   {"change/RecordTwiceIsLikeOnce", recordIgnored},
	"a record outlives its entry":           {"record/ARecordGoesWithItsEntry", recordStays},
	"share joins anew":                      {"share/AnEntryIsSharedInItsPlace", shareJoins},
	"share is seen without its entry":       {"share/ASharedEntryIsNeverAbsent", shareBlinks},
	"share is not told":                     {"share/WhoStandsBehindIsTold", shareUntold},
	"a limit is not checked":                {"limit/AnotherLimitIsRefusedAndNamed", limitUnchecked},
	"a limit is not named":                  {"limit/AnotherLimitIsRefusedAndNamed", limitUnnamed},
	"follow is refused":                     {"limit/WhoFollowsTakesTheLimitThatIsThere", followRefused},
	"looks show an old limit":               {"limit/ALookShowsALimitNotOlderThanTheLine", limitOld},
	"a limit is an entry":                   {"limit/ALimitAloneIsNoLine", limitEntry},
	"a late limit undoes a newer":           {"limit/ALateSetLimitDoesNotUndoANewerOne", limitUndone},
	"a limit is not told":                   {"limit/ANewLimitIsToldToWhoWatches", asAspect(driver.OfLimit, driver.OfAdmitted)},
	"admission outlives its entry":          {"admit/AnAdmissionGoesWithItsEntry", admittedStays},
	"admission is not told":                 {"admit/AnAdmissionIsShownAndTold", loses(driver.Changed)},
	"the end of a holder is not told":       {"admit/TheLeaveOfAHolderIsTold", asAspect(driver.OfAdmitted, driver.OfLimit)},
	"everything wakes who waits in front":   {"admit/AReleaseIsToldOnceWhateverTheNumberOfWaiters", asAspect(driver.OfAdmitted, driver.OfLine)},
	"numbers are used once":                 {"claim/NumbersAreTheLowestThatAreFree", claimNext},
	"numbers are places":                    {"claim/ANumberIsFreeWhenItsEntryHasGone", claimPlace},
	"numbers have the tokens of entries":    {"claim/TheTokenOfANumberRises", claimWithPlace},
	"values are taken for meta":             {"value/AValueIsStoredAsItIs", valueDecoded},
	"values are text":                       {"value/AValueIsStoredAsItIs", valueText},
	"large values are cut":                  {"value/AValueMayBeAsLargeAsTheProfileSays", valueSmall},
	"write joins anew":                      {"value/AWriteChangesTheValueInItsPlace", writeJoins},
	"foreign values are hidden":             {"value/TheValueOfAForeignEntryIsShown", foreignValueHidden},
	"a late write undoes a newer":           {"value/ALateWriteDoesNotUndoANewerOne", writeUndone},
	"no ledger is not clean":                {"ledger/TheFirstHoldIsAfterACleanOne", entered(driver.PastClean, driver.PastUnknown)},
	"death is not told":                     {"ledger/AHoldThatDiedIsTold", entered(driver.PastDied, driver.PastClean)},
	"enter forgets what it said":            {"ledger/AHoldThatDiedIsToldToWhoWaited", enterForgets},
	"every leave is clean":                  {"ledger/AHoldThatDiedIsTold", leavesClean(true)},
	"no leave is clean":                     {"ledger/AHoldGivenBackIsClean", leavesClean(false)},
	"a waiter strikes the name of a holder": {"ledger/OnlyTheOwnNameIsStruck", strikesAll},
	"a waiter believes its join":            {"ledger/AHolderAheadOfAWaitersNameIsMissed", ledgerByOrder},
	"the watch of a line ends with it":      {"aspect/AWatchOfALineGoesOnAfterItIsEmpty", lineGone},
	"an empty line is not watched":          {"aspect/AJoinOfAnEmptyLineIsToldToWhoWatchesTheLine", lineEmptyUnseen},
	"a line swallows broken":                {"aspect/ALineIsWatchedOverACut", deadAfterCut},
	"evict goes by the key alone":           {"evict/EvictNeverDeletesALaterEntry", evictByKey},
	"evict says nil when gone":              {"evict/EvictOfAnEntryThatIsGoneSaysSo", evictNil},
	"evict ends the session":                {"evict/EvictLeavesTheSessionAndItsOtherEntries", evictSession},
	"evict takes its own deletion for gone": {"evict/EvictSurvivesALostReply", evictTwice},
	"evict gives back":                      {"evict/AnEvictedHolderHasNotGivenBack", evictClean},
	"evict leaves foreign entries":          {"evict/AnyEntryIsEvictedWhoeverOwnsIt", evictOurs},
	"an ask stands in the line":             {"asks/AnAskIsInNoLine", askInLine},
	"asks have names":                       {"asks/AnAskIsInNoLine", asksNamed},
	"asks of all locks are together":        {"asks/AsksOfAllNamesAreApart", asksTogether},
	"an ask is told in the line":            {"asks/AnAskIsNotToldToWhoWatchesTheLine", askTells},
	"an ask that is withdrawn stays":        {"asks/AnAskIsToldToWhoWatchesForIt", askStays},
	"goroutine is left behind":              {"leaks/AbandonLeavesNoGoroutine", goroutineLeft},
	"deadline comes too late":               {"session/AContextEndsBeforeTheEntriesOfADeadClientGo", proofPromisesMore},
}

const defectVar = "FAIRLOCK_DRIVERTEST_DEFECT"

// TestWrapped runs the suite over the wrapper that defects are planted in. It
// must be green without a defect; with one, it is run by the test below.
func TestWrapped(t *testing.T) {
	name := os.Getenv(defectVar)
	said, blinking := &words{}, &sync.Map{}
	drivertest.Run(t, memtest.Harness(membackend.Options{Tells: true, Ends: true}, func(st *membackend.Store, c *membackend.Client) driver.Backend {
		b := &badBackend{Backend: c.Backend(), st: st, c: c, words: said, blinking: blinking}
		if name != "" {
			require.Contains(t, defects, name)
			defects[name].plant(b)
		}
		return b
	}))
}

func TestSuiteCatchesEveryPlantedDefect(t *testing.T) {
	if os.Getenv(defectVar) != "" {
		return // this process is one with a defect
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for name, d := range defects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			run := "^TestWrapped$/^" + strings.ReplaceAll(d.story, "/", "$/^") + "$"
			cmd := exec.CommandContext(ctx, self, "-test.run", run, "-test.timeout", "50s")
			cmd.Env = append(os.Environ(), defectVar+"="+name)
			out, err := cmd.CombinedOutput()

			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite was green:\n%s", out)
			assert.Contains(t, string(out), "--- FAIL: TestWrapped/"+d.story, "another story failed")
			assert.NotContains(t, string(out), "test timed out", "a defect must end a story, not hang it")
		})
	}
}

package zookeeper

import (
	"sync"
	"testing"
)

// TestPitfalls tells of everything that has gone wrong with locks on ZooKeeper,
// here or in the libraries that came before. The stories are told side by side:
// most of the time each of them waits for its servers or for a session to
// expire.
func TestPitfalls(t *testing.T) {
	const atOnce = 4
	room := make(chan struct{}, atOnce)
	var told sync.WaitGroup
	for _, s := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"ContextsEndBeforeNodes", contextsEndBeforeNodes},
		{"ASilentConnectionCostsNoSession", silentConnection},
		{"AFollowerThatIsCutOffProvesNothing", cutFollowerProvesNothing},
		{"ADeposedLeaderProvesNothingToAQuorum", deposedLeader},
		{"TheDeadlineFollowsWhatTheServerGives", deadlineFollowsServer},
		{"RequestsStayWithTheirSession", requestsStayWithTheirSession},
		{"EntriesBelongToTheSessionThatHolds", entriesBelongToTheSessionThatHolds},
		{"AnotherSessionIsNotOurs", anotherSessionIsNotOurs},
		{"AWipedServerCostsTheHoldAndNoMore", wipedServer},
		{"CloseReturnsWithoutServers", closeWithoutServers},
		{"AnOutageIsLoggedSparsely", outageIsLoggedSparsely},
		{"ARefusedLoginIsLoggedSparsely", refusedLoginIsLoggedSparsely},
		{"OpenTriesAgain", openTriesAgain},
		{"CredentialsAreShownAgain", credentialsAreShownAgain},
		{"LostRepliesLeaveNoOrphan", lostRepliesLeaveNoOrphan},
		{"ALateCommitMakesOneEntry", lateCommitMakesOneEntry},
		{"ImpatientCallersLeaveNothing", impatientCallersLeaveNothing},
		{"SettledJoinsStayAway", settledJoinsStayAway},
		{"NumbersComeAgain", numbersComeAgain},
		{"FoldersVanishAtAnyMoment", foldersVanishAtAnyMoment},
		{"ForeignChildrenAreLeftAlone", foreignChildrenAreLeftAlone},
		{"TokensAlwaysRise", tokensAlwaysRise},
		{"TheLastNumbersBeginTheLineAnew", theLastNumbers},
		{"TryAtTheLastNumbers", tryAtTheLastNumbers},
		{"OthersAtTheLastNumbers", othersAtTheLastNumbers},
		{"AReleaseWhileAwayIsNoticed", releaseWhileAway},
		{"WhoLeavesTheMiddleHandsOnNothing", whoLeavesTheMiddle},
		{"ReconnectsLoseNoTurn", reconnectsLoseNoTurn},
		{"DeletedEntriesGrantNobodyTwice", deletedEntriesGrantNobodyTwice},
		{"ADeletedHoldEnds", deletedHoldEnds},
		{"AStoppedServerKeepsNobody", stoppedServer},
		{"ImpostorsKeepNobody", impostors},
		{"RefusalsAreTold", refusalsAreTold},
		{"AQuotaIsTold", realQuota},
		{"AHandOffCostsLittle", handOffCostsLittle},
		{"ALongLineIsNeverRead", longLineIsNeverRead},
		{"ForeignWritesGrantNobody", foreignWritesGrantNobody},
		{"OnlyHoldersLeaveWord", onlyHoldersLeaveWord},
	} {
		told.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			t.Run(s.name, s.tell)
		})
	}
	told.Wait()
}

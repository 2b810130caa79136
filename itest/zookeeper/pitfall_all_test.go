package zookeeper

import (
	"testing"

	"github.com/fairlock/fairlock/itest/both"
)

// TestPitfalls runs a case for everything that has gone wrong with locks on ZooKeeper,
// here or in the libraries that came before.
func TestPitfalls(t *testing.T) {
	both.Cases{
		"ContextsEndBeforeNodes":               contextsEndBeforeNodes,
		"ASilentConnectionCostsNoSession":      silentConnection,
		"AFollowerThatIsCutOffProvesNothing":   cutFollowerProvesNothing,
		"ADeposedLeaderProvesNothingToAQuorum": deposedLeader,
		"TheDeadlineFollowsWhatTheServerGives": deadlineFollowsServer,
		"RequestsStayWithTheirSession":         requestsStayWithTheirSession,
		"EntriesBelongToTheSessionThatHolds":   entriesBelongToTheSessionThatHolds,
		"AnotherSessionIsNotOurs":              anotherSessionIsNotOurs,
		"AWipedServerCostsTheHoldAndNoMore":    wipedServer,
		"CloseReturnsWithoutServers":           closeWithoutServers,
		"AnOutageIsLoggedSparsely":             outageIsLoggedSparsely,
		"ARefusedLoginIsLoggedSparsely":        refusedLoginIsLoggedSparsely,
		"OpenTriesAgain":                       openTriesAgain,
		"CredentialsAreShownAgain":             credentialsAreShownAgain,
		"LostRepliesLeaveNoOrphan":             lostRepliesLeaveNoOrphan,
		"ALateCommitMakesOneEntry":             lateCommitMakesOneEntry,
		"SequenceNumbersAreUsedAgain":          numbersUsedAgain,
		"FoldersMayBeRemovedAtAnyMoment":       foldersVanishAtAnyMoment,
		"ForeignChildrenAreLeftAlone":          foreignChildrenAreLeftAlone,
		"TokensAlwaysRise":                     tokensAlwaysRise,
		"TheLastSequenceNumbersAreRefused":     theLastNumbers,
		"TheVeryLastSequenceNumberIsRefused":   theVeryLastNumber,
		"AReleaseWhileAwayIsNoticed":           releaseWhileAway,
		"ReconnectsLoseNoPlace":                reconnectsLoseNoPlace,
		"DeletedEntriesGrantOneAtATime":        deletedEntriesGrantOneAtATime,
		"AStoppedServerBlocksNoCall":           stoppedServer,
		"OtherServersBlockNoCall":              impostors,
		"RefusalsAreReported":                  refusalsAreReported,
		"AQuotaIsReported":                     realQuota,
		"AHandOffCostsLittle":                  handOffCostsLittle,
		"ALongQueueIsHardlyEverListed":         longQueueIsHardlyEverListed,
		"ForeignWritesGrantNothing":            foreignWritesGrantNothing,
	}.Run(t)
}

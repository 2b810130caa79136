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
		"NumbersComeAgain":                     numbersComeAgain,
		"FoldersVanishAtAnyMoment":             foldersVanishAtAnyMoment,
		"ForeignChildrenAreLeftAlone":          foreignChildrenAreLeftAlone,
		"TokensAlwaysRise":                     tokensAlwaysRise,
		"TheLastNumbersBeginTheLineAnew":       theLastNumbers,
		"TryAtTheLastNumbers":                  tryAtTheLastNumbers,
		"OthersAtTheLastNumbers":               othersAtTheLastNumbers,
		"AReleaseWhileAwayIsNoticed":           releaseWhileAway,
		"ReconnectsLoseNoTurn":                 reconnectsLoseNoTurn,
		"DeletedEntriesGrantNobodyTwice":       deletedEntriesGrantNobodyTwice,
		"AStoppedServerKeepsNobody":            stoppedServer,
		"ImpostorsKeepNobody":                  impostors,
		"RefusalsAreTold":                      refusalsAreTold,
		"AQuotaIsTold":                         realQuota,
		"AHandOffCostsLittle":                  handOffCostsLittle,
		"ALongQueueIsHardlyEverListed":         longQueueIsHardlyEverListed,
		"ForeignWritesGrantNobody":             foreignWritesGrantNobody,
	}.Run(t)
}

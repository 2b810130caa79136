package etcd

import (
	"testing"

	"github.com/fairlock/fairlock/itest/both"
)

// TestCases runs the cases that most tests of this package are.
func TestCases(t *testing.T) {
	both.Cases{
		"AWaiterOnACutMemberIsGrantedByTheMajority":      waiterOnACutMember,
		"OneBlackHoleAmongThreeEndpointsLosesNoSession":  blackHoleLosesNoSession,
		"IdleSessionsAreRenewedBesideALearner":           idleBesideALearner,
		"IdleSessionsAreRenewedBesideACutMember":         idleBesideACutMember,
		"CancelledJoinsUseTheirFencesAgain":              cancelledJoins,
		"ALongLivedSessionSurvivesItsLogin":              sessionSurvivesItsLogin,
		"RenewalsNeedNoLogin":                            renewalsNeedNoLogin,
		"TheQueueGoesOnWhenTheLeaderMovesAndDies":        leaderMovesAndDies,
		"RepliesAreCutBehindTheRequest":                  repliesCut,
		"TheQueueIsSharedWithOtherClients":               queueSharedWithOthers,
		"AFullQuotaIsReportedAndLocksCanBeReleased":      fullQuota,
		"AFullQuotaDoesNotHinderTheReleaseOfRobustLocks": fullRobust,
		"ALeaderIsReadAtTheSameCostAmongMany":            leaderBytes,
		"AHolderThatWouldWaitForItselfIsRefused":         waitForSelf,
		"AnOutageIsLoggedSparsely":                       outageIsLoggedSparsely,
		"AnUnreachableEndpointIsNamedInTime":             unreachableIsNamed,
		"ACompactionAndAResetLoseNoPlace":                compactionAndReset,
		"AReleaseDuringACutIsNoticedAfterIt":             releaseDuringACut,
		"PermissionOnTheRootSuffices":                    permissionOnTheRoot,
		"WhatMayNotBeDeletedHindersNoRelease":            deniedRecords,
		"TLSFromFilesAndNoOtherAuthority":                tlsFromFiles,
		"ACertificateThatDoesNotServeIsNamedInTime":      badCertificates,
		"CertificatesAreReplacedUnderAHold":              replacedCertificates,
		"APasswordFileIsReplacedUnderAHold":              replacedPassword,
		"AClosedClientEndsAllCalls":                      closedClient,
	}.Run(t)
}

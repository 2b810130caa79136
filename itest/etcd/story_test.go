package etcd

import (
	"sync"
	"testing"
)

// story is a named claim and the test of it.
type story struct {
	name string
	tell func(*testing.T)
}

// TestStories tells stories side by side: most of the time each of them waits
// for its servers or for a lease to end. They are not marked parallel, since
// some tests that are look for goroutines that leak.
func TestStories(t *testing.T) {
	const atOnce = 4
	room := make(chan struct{}, atOnce)
	var told sync.WaitGroup
	for _, s := range []story{
		{"AWaiterOnACutMemberIsGrantedByTheMajority", waiterOnACutMember},
		{"OneBlackHoleAmongThreeEndpointsLosesNoSession", blackHoleLosesNoSession},
		{"ALongLivedSessionSurvivesItsLogin", sessionSurvivesItsLogin},
		{"RenewalsNeedNoLogin", renewalsNeedNoLogin},
		{"TheLineGoesOnWhenTheLeaderMovesAndDies", leaderMovesAndDies},
		{"AStoppedHoldersLateWriteIsRefused", stoppedHolderIsRefused},
		{"TheLineIsSharedWithOtherClients", lineSharedWithOthers},
		{"AFullQuotaIsToldAndLocksCanBeGivenBack", fullQuota},
		{"AFullQuotaDoesNotHinderTheReleaseOfRobustLocks", fullRobust},
		{"ALeaderIsReadAtTheSameCostAmongMany", leaderBytes},
		{"AHolderThatWouldWaitForItselfIsRefused", waitForSelf},
		{"AnOutageIsLoggedSparsely", outageIsLoggedSparsely},
		{"RootsThatAreNestedDoNotMeet", nestedRoots},
		{"AnUnreachableEndpointIsNamedInTime", unreachableIsNamed},
		{"ACompactionAndAResetLoseNoPlace", compactionAndReset},
		{"AReleaseDuringACutIsNoticedAfterIt", releaseDuringACut},
		{"PermissionOnTheRootSuffices", permissionOnTheRoot},
		{"WhatMayNotBeDeletedHindersNoRelease", deniedBeside},
		{"TLSFromFilesAndNoOtherAuthority", tlsFromFiles},
		{"ACertificateThatDoesNotServeIsNamedInTime", badCertificates},
		{"StrangersOfAllKindsAreWaitedForInEveryLine", strangersInEveryLine},
		{"WhatStrangersWriteBesideALineIsNotBelieved", strangersBeside},
		{"PasswordsAreKept", passwordsAreKept},
		{"AForeignKeyWithoutALeaseIsNamed", foreignKeyWithoutLease},
		{"AForeignKeyWithoutALeaseIsNamedWhenItComesNext", foreignKeyComesNext},
		{"AForeignLeasedKeyIsWaitedFor", foreignLeasedKey},
		{"MisuseIsToldAndLeavesNothing", misuseLeavesNothing},
		{"AClosedClientEndsAllCalls", closedClient},
	} {
		told.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			t.Run(s.name, s.tell)
		})
	}
	told.Wait()
}

package onzk_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/onzk"
)

// TestEveryFaultTakesEffectOnOtherTransports repeats the tests of faults on servers that do not
// have the default transport.
func TestEveryFaultTakesEffectOnOtherTransports(t *testing.T) {
	for _, transport := range onzk.Transports()[1:] {
		t.Run(transport, func(t *testing.T) {
			on(t, transport)
			assert.Equal(t, transport, service.Transport())
			for name, test := range map[string]func(*testing.T){
				"operator": TestOperatorEndsSessionsAndEntries,
				"order":    TestOrderMatchesTheEntries,
				"process":  TestProcessLosesItsHoldWhileItIsStopped,
				"members":  TestFaultsOfMembersTakeEffectAndHeal,
				"replies":  TestRepliesOfEveryKindCanBeLost,
				"first":    TestClientsConnectToTheirFirstMember,
				"cut":      TestCutHoldersAreNotified,
			} {
				t.Run(name, test)
			}
		})
	}
	_, err := onzk.Start(within(t), "pigeon")
	require.ErrorContains(t, err, "no transport")
}

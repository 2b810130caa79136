package zkbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEntriesOfSeveralProtocolsAreFound(t *testing.T) {
	const (
		mutex, reader = "00112233445566aa-lock-0000000001", "00112233445566aa-__READ__0000000002"
		writer        = "00112233445566aax-__WRIT__0000000002"
		latch         = "00112233445566aav-latch-0000000001"
		stockLatch    = "_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-latch-0000000005"
		kazooOurs     = "00112233445566aa__lock__0000000003"
		kazooReader   = "00112233445566aa__rlock__0000000004"
		stock         = "_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-lock-0000000005"
		stockReader   = "_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-__READ__0000000006"
		stockWriter   = "_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-__WRIT__0000000007"
		kazoo         = "650a0f30f9b34987ba0141457acea795__lock__0000000008"
	)
	for _, c := range []struct {
		names []string
		mixed bool
	}{
		{nil, false},
		{[]string{mutex, stock}, false},
		{[]string{kazooOurs, kazooReader, kazoo}, false},
		{[]string{reader, stockReader, stockWriter}, false},
		{[]string{reader, writer}, false},
		{[]string{mutex, reader}, true}, // two kinds of locks of ours
		{[]string{mutex, latch}, true},
		{[]string{latch, stockLatch}, false},
		{[]string{mutex, reader, stock}, true},
		{[]string{mutex, stockWriter}, true},
		{[]string{stock, stockReader}, true},
		{[]string{mutex, kazoo}, true},
		{[]string{mutex, kazooOurs}, true}, // two layouts
		{[]string{kazoo, stockReader}, true},
	} {
		names := parseNames(append(c.names, "README"))
		assert.Equal(t, c.mixed, mixed(names) >= 0, "%q", c.names)
	}
}

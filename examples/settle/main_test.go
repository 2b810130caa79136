package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettles(t *testing.T) { require.NoError(t, run(t.Context(), "", 2)) }

func TestLedgerRefusesLowerTokens(t *testing.T) {
	book := &ledger{}
	require.NoError(t, book.touch(5))
	require.NoError(t, book.write(5, 1))
	require.NoError(t, book.touch(7))
	require.Error(t, book.write(5, 2))
	require.Error(t, book.touch(5), "reads included")
	require.Equal(t, []int{1}, book.settled)
}

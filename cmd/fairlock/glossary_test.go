package main

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/glossary"
)

// helps calls f with the help text of each command below cmd, and of cmd itself.
func helps(t *testing.T, cmd *cobra.Command, f func(path, help string)) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetOut(&out)
	require.NoError(t, cmd.Help())
	cmd.SetOut(nil)
	f(cmd.CommandPath(), out.String())
	for _, c := range cmd.Commands() {
		helps(t, c, f)
	}
}

func TestGlossaryOfHelp(t *testing.T) {
	commands := 0
	helps(t, root(), func(path, help string) {
		commands++
		for _, found := range glossary.Find(help, nil) {
			t.Errorf("%s --help, line %d: %s", path, found.Line, found)
		}
	})
	assert.Greater(t, commands, 15)
}

func TestGlossaryFindsRetiredWordsInHelp(t *testing.T) {
	cmd := &cobra.Command{Use: "parent"}
	cmd.AddCommand(&cobra.Command{Use: "child", Long: "Wait\nin the line.", Run: func(*cobra.Command, []string) {}})

	var found []string
	helps(t, cmd, func(path, help string) {
		for _, f := range glossary.Find(help, nil) {
			found = append(found, path+" "+f.Word)
		}
	})
	assert.Equal(t, []string{"parent child in the line"}, found)
}

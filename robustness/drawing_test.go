package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReportIsDrawnIntoThePages draws the made-up results of package report.
func TestReportIsDrawnIntoThePages(t *testing.T) {
	page := filepath.Join(t.TempDir(), "reliability.md")
	evidence := filepath.Join(filepath.Dir(page), "reliability", "README.md")
	byHand := []byte("by hand\n<!-- robustness:begin -->\n<!-- robustness:end -->\nby hand too\n")
	require.NoError(t, os.Mkdir(filepath.Dir(evidence), 0o700))
	require.NoError(t, os.WriteFile(page, byHand, 0o600))
	require.NoError(t, os.WriteFile(evidence, byHand, 0o600))
	c, err := parse([]string{"-page", page, "-report", "report/testdata/one", "report/testdata/two"})
	require.NoError(t, err)
	require.NotNil(t, c.drawn)
	var out, progress bytes.Buffer

	require.NoError(t, c.drawn.write(&out, &progress))

	is, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^by hand\n.*\| service \| lock \| trials \|.*\nby hand too\n$`, string(is))
	assert.NotContains(t, string(is), "holder-cut")
	is, err = os.ReadFile(evidence)
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^by hand\n.*\| holder-cut \| 5 \| 4 \|.*\nby hand too\n$`, string(is))
	assert.FileExists(t, filepath.Join(filepath.Dir(evidence), "notified.svg"))
	assert.Empty(t, out.String())
	assert.Contains(t, progress.String(), "not read: one/etcd-fairlock.jsonl: line 11")
}

func TestReportDoesNotChangeAPageWithoutMarks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("by hand\n"), 0o600))

	err := (&drawing{folders: []string{"report/testdata/one"}, page: page}).write(&bytes.Buffer{}, &bytes.Buffer{})

	require.ErrorContains(t, err, page)
	is, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, "by hand\n", string(is))
}

func TestReportIsPrintedWithoutAPage(t *testing.T) {
	var out bytes.Buffer

	require.NoError(t, (&drawing{folders: []string{"report/testdata/one"}}).write(&out, &bytes.Buffer{}))

	assert.Contains(t, out.String(), "## Compared with the peers on etcd")
}

func TestFoldersNeedReportFlag(t *testing.T) {
	_, err := parse([]string{"some/folder"})

	assert.ErrorContains(t, err, "-report")
}

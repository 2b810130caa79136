package conntest_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/zktest"
)

// TestTheTableOfCodesHasThoseOfTheServers, by their own list.
func TestTheTableOfCodesHasThoseOfTheServers(t *testing.T) {
	java, classpath, err := zktest.Find()
	require.NoError(t, err)
	table, err := os.ReadFile("../conn/testdata/codes.txt")
	require.NoError(t, err)
	cmd := exec.CommandContext(bounded(t), java, "-cp", classpath, "testdata/Codes.java")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	all, err := cmd.Output()
	require.NoError(t, err, "it needs a JDK (Debian: default-jdk-headless): %s", &complaints)

	codes := strings.Split(strings.TrimSpace(string(all)), "\n")
	require.Greater(t, len(codes), 20)
	for _, line := range codes {
		if line != "0 OK" {
			assert.Contains(t, "\n"+string(table), "\n"+line+" ")
		}
	}
}

package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/tier"
)

// shells are those whose completion is tested, with what loads it. bash's script needs one
// function of the package bash-completion.
func shells() map[string]string {
	all := map[string]string{
		"bash --norc --noprofile -i": `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }; ` +
			`bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source <(fairlock completion bash)`,
	}
	if tier.All() {
		all["zsh -f -i"] = "autoload -U compinit; compinit -u -D; source <(fairlock completion zsh)"
	}
	return all
}

// TestTabRunsNoNameOfALock: other clients choose the names, and a shell inserts what
// several have in common without quoting it.
func TestTabRunsNoNameOfALock(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "names")
		for _, name := range []string{
			"a`touch${IFS}ran`", "b$(touch${IFS}ran)", "c;touch${IFS}ran;", "d\ntouch ran\n", "e|touch${IFS}ran;", "f'`touch${IFS}ran`'",
			`g"$(touch${IFS}ran)"`, "--status-fd=", "h&touch${IFS}ran&", "i<(touch${IFS}ran)", "(touch ran)",
		} {
			holdOf(t, s, name+"1")
			holdOf(t, s, name+"2")
		}
		holdOf(t, s, "safe/one")
		holdOf(t, s, "safe/two")
		for shell, load := range shells() {
			t.Run(strings.Fields(shell)[0], func(t *testing.T) { tabs(t, url, strings.Fields(shell), load) })
		}
	})
}

func tabs(t *testing.T, url string, shell []string, load string) {
	t.Helper()
	dir := t.TempDir()
	path, err := exec.LookPath(shell[0])
	require.NoError(t, err)
	r := prepared(t, url)
	r.Path, r.Args, r.Dir = path, shell, dir
	r.Env = append(r.Env, "PS1=$ ", "HISTFILE=", "PATH="+filepath.Dir(os.Getenv(binaryEnv))+":"+os.Getenv("PATH"))
	x := onOwnTerminal(t, r, 200, 40)
	ends := 0
	end := func() { // the shell reads one key after the other, so what was typed before has been done
		ends++
		x.types(t, fmt.Sprintf("\x15echo do''ne %d.\r", ends))
		x.screen.WaitFor(t, fmt.Sprintf(`done %d\.`, ends))
	}
	x.types(t, load+"\r")
	end()
	for range 20 { // a service that does not answer within a second completes nothing
		x.types(t, "fairlock who sa\t")
		end()
		if strings.Contains(x.screen.String(), "who safe/") {
			break
		}
	}
	require.Contains(t, x.screen.String(), "who safe/", "completion works")

	for begun := range strings.SplitSeq("abcdefghi", "") {
		for _, command := range []string{"who", "run"} {
			x.types(t, "fairlock "+command+" "+begun+"\t\t\t\t")
			end()
			require.NoFileExists(t, filepath.Join(dir, "ran"), begun)
		}
	}
	x.types(t, "fairlock who \t\t\t\t")
	end()

	require.NoFileExists(t, filepath.Join(dir, "ran"))
	assert.NotContains(t, x.screen.String(), "touch")
	assert.NotContains(t, x.screen.String(), "--status-fd")
	x.types(t, "\x15exit\r")
}

package conn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// known is a line of testdata/codes.txt.
type known struct {
	code  int
	name  string
	class class
}

func knownCodes(t *testing.T) (all []known) {
	t.Helper()
	f, err := os.Open("testdata/codes.txt")
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			var k known
			_, err := fmt.Sscan(line, &k.code, &k.name, &k.class)
			require.NoError(t, err, line)
			all = append(all, k)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// TestEveryCodeOfAServerHasAClass, as the answer to a request, and to the first requests of a session, where nothing
// is known yet that would make a refusal a matter of one request. That the table has every code of the servers is
// tested in conntest.
func TestEveryCodeOfAServerHasAClass(t *testing.T) {
	for _, k := range knownCodes(t) {
		t.Run(k.name, func(t *testing.T) {
			assert.Equal(t, k.class, code(k.code).class())
			s := &server{}
			s.serve = func(p *peer, r request) bool {
				odd := p.n == 1 && r.op() == opExists
				if odd {
					p.send(refusal(r, k.code))
				}
				return odd
			}
			scripted(t, s, nil, func(t *testing.T, c *Session, r *reports) {
				_, err := c.Repeat(t.Context(), Exists("/a"))
				if k.class == classUnavailable {
					require.NoError(t, err)
					assert.Len(t, s.addrs(), 2, "it was sent again")
					return
				}
				require.Error(t, err)
				assert.Equal(t, k.class == classDenied, errors.Is(err, driver.ErrDenied), err)
				assert.Equal(t, k.class == classOver, errors.Is(err, driver.ErrSessionOver), err)
				assert.NotErrorIs(t, err, driver.ErrUnavailable)
				synctest.Wait()
				assert.Equal(t, k.class == classOver, len(r.losses()) == 1)
			})
			opens(t, k)
		})
	}
}

// opens fails the test if Open does not treat a code as it should, as the answer to its first Sync.
func opens(t *testing.T, k known) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{serve: func(p *peer, r request) bool {
			odd := p.n == 1 && r.op() == opSync
			if odd {
				p.send(refusal(r, k.code))
			}
			return odd
		}}
		cfg, _ := s.config()
		ctx, cancel := context.WithTimeout(t.Context(), cfg.TTL)
		defer cancel()
		c, err := Open(ctx, cfg)
		switch {
		case k.class == classUnavailable, k.class == classOver:
			require.NoError(t, err)
			assert.NoError(t, c.Close(ctx))
		case k.class == classDenied, k.name == "NOAUTH":
			require.ErrorIs(t, err, driver.ErrDenied)
			assert.Len(t, s.addrs(), 1)
		default:
			require.ErrorIs(t, err, driver.ErrRefused)
			assert.Len(t, s.addrs(), 1)
		}
	})
}

// TestTheTableHasEveryCodeOfTheLibrary, of whose source it reads the constants.
func TestTheTableHasEveryCodeOfTheLibrary(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/go-zookeeper/zk").Output()
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "constants.go"), nil, 0)
	require.NoError(t, err)
	table := map[int]string{0: "errOk"}
	for _, k := range knownCodes(t) {
		table[k.code] = k.name
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "err") {
			return true
		}
		text := ""
		switch v := spec.Values[0].(type) {
		case *ast.BasicLit:
			text = v.Value
		case *ast.UnaryExpr:
			if lit, ok := v.X.(*ast.BasicLit); ok {
				text = v.Op.String() + lit.Value
			}
		}
		if number, err := strconv.Atoi(text); err == nil {
			found++
			assert.Contains(t, table, number, spec.Names[0].Name)
		}
		return true
	})
	assert.GreaterOrEqual(t, found, 20)
}

// TestACodeThatIsNotKnownIsARefusal, with its number in the text: a newer server may have it.
func TestACodeThatIsNotKnownIsARefusal(t *testing.T) {
	answered, err := serverError(errors.New("unknown error: -999"))
	assert.True(t, answered)
	require.ErrorIs(t, err, zk.ErrAPIError)
	assert.ErrorContains(t, err, "-999")
}

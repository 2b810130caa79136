package house

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/fairlock/fairlock"

// anything, in a rule's lists, allows every package.
const anything = "*"

// A rule lists what the packages of one folder may import. Package paths below
// golang.org/x count as the standard library.
type rule struct {
	// folder is relative to the root. With "/..." the rule also covers all
	// folders below it that no earlier rule covers.
	folder string
	// ours are the packages of this project that its code may import, each
	// written as the folder of the rule that covers them.
	ours []string
	// outside are prefixes of foreign packages that its code may import.
	outside []string
	// unshipped packages are for this project, or they start servers: users'
	// programs do not link them, so they may depend on whatever they need.
	unshipped bool
	// forTests marks packages that exist for tests: their code may import what
	// is for tests only.
	forTests bool
}

// importRules are the import rules of all modules but those apart. The first rule that covers a
// folder counts.
var importRules = []rule{
	{
		folder: ".", // documentation and examples
		ours:   []string{"zkbackend/..."},
	},
	{
		folder:  "stores", // what a URL can name
		ours:    []string{"session", "etcdbackend/...", "zkbackend/...", "pgbackend/...", "redisbackend/...", "membackend", "internal/address", "internal/..."},
		outside: []string{"github.com/go-zookeeper/zk", "github.com/jackc/pgx/v5", "github.com/redis/rueidis"},
	},

	{folder: "session/driver"},
	{folder: "fault"},
	{folder: "session/driver/drivertest", ours: []string{"session/driver", "fault", "internal/metronome", "internal/hang"}, forTests: true},
	{folder: "session", ours: []string{"session/driver", "internal/door", "internal/engine", "internal/owner", "internal/report", "internal/rule", "internal/term"}},
	{folder: "internal/term", ours: []string{"session/driver"}},
	{folder: "internal/report"},
	{folder: "internal/observed", ours: []string{"session/driver"}},
	{folder: "internal/owner", ours: []string{"session/driver"}},
	{folder: "internal/rule", ours: []string{"session/driver"}},
	{folder: "internal/queue", ours: []string{"session/driver", "internal/rule"}},
	{folder: "internal/engine", ours: []string{"session/driver", "internal/owner", "internal/queue", "internal/rule", "internal/term"}},
	{folder: "internal/recipe", ours: []string{"session", "session/driver"}},
	{folder: "recipes/recipetest", ours: []string{"recipes/...", "recipes/yield", "internal/engine", "internal/owner", "session", "session/driver", "session/driver/drivertest", "fault", "internal/door", "internal/progtest", "internal/hooktest", "internal/metronome", "internal/hang"}, forTests: true},
	{folder: "recipes/yield", ours: []string{"internal/door", "internal/engine", "internal/owner", "internal/term", "session", "session/driver"}},
	{folder: "recipes/...", ours: []string{"internal/door", "internal/engine", "internal/once", "internal/recipe", "internal/rule", "session", "session/driver", "fence/..."}},

	{folder: "fence/casfence/s3fence", ours: []string{"session", "fence/..."}, outside: []string{"github.com/aws"}},
	{folder: "fence/casfence/gcsfence", ours: []string{"session", "fence/..."}, outside: []string{"cloud.google.com/go/storage", "google.golang.org/api"}},
	{folder: "fence/...", ours: []string{"session", "fence/..."}},
	{folder: "internal/fencetest", ours: []string{"session", "fence/...", "internal/hang", "internal/process", "internal/testserver", "internal/tier"}, unshipped: true, forTests: true},

	{folder: "telemetry", ours: []string{"session"}},
	{folder: "telemetry/telemetrytest", ours: []string{"telemetry", "session", "recipes/...", "membackend", "fault"}, forTests: true},
	{folder: "telemetry/otel", ours: []string{"telemetry", "session"}, outside: []string{"go.opentelemetry.io/otel"}},
	{folder: "telemetry/prometheus", ours: []string{"telemetry", "session"}, outside: []string{"github.com/prometheus"}},
	{folder: "telemetry/health", ours: []string{"session"}},
	{folder: "telemetry/waits", ours: []string{"session"}},

	{folder: "membackend", ours: []string{"session", "session/driver", "fault", "internal/door", "internal/memory"}},
	{folder: "internal/memtest", ours: []string{"fault", "membackend", "internal/door", "internal/memory", "session", "session/driver", "session/driver/drivertest"}, forTests: true},
	{folder: "internal/memory", ours: []string{"fault", "session/driver"}},
	{
		folder:  "etcdbackend/...",
		ours:    []string{"etcdbackend/...", "session", "session/driver", "internal/door", "internal/address", "internal/..."},
		outside: []string{"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client", "google.golang.org/grpc", "go.uber.org/zap"},
	},
	{
		folder:  "compat/concurrency",
		ours:    []string{"etcdbackend/...", "recipes/...", "session", "session/driver", "internal/door"},
		outside: []string{"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client", "go.uber.org/zap"},
	},
	{
		folder:  "pgbackend/...",
		ours:    []string{"pgbackend/...", "session", "session/driver", "fault", "internal/door", "internal/address", "internal/observed", "internal/..."},
		outside: []string{"github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2"},
	},
	{folder: "redisbackend/internal/scripttest", ours: []string{anything}, outside: []string{anything}, unshipped: true, forTests: true},
	{
		folder:  "redisbackend/...",
		ours:    []string{"redisbackend/...", "session", "session/driver", "fault", "internal/door", "internal/address", "internal/observed", "internal/..."},
		outside: []string{"github.com/redis/rueidis"},
	},
	{folder: "zkbackend/internal/conntest", ours: []string{anything}, outside: []string{anything}, unshipped: true, forTests: true},
	{
		folder:  "zkbackend/...",
		ours:    []string{"zkbackend/...", "session", "session/driver", "internal/door", "internal/address", "internal/..."},
		outside: []string{"github.com/go-zookeeper/zk"},
	},

	{folder: "testnet", ours: []string{"fault"}, unshipped: true, forTests: true},
	{folder: "internal/address", ours: []string{"internal/..."}},
	{folder: "internal/tcpproxy", ours: []string{"fault", "testnet"}, unshipped: true, forTests: true},
	{folder: "internal/testserver", ours: []string{"internal/hang", "internal/metronome", "internal/process"}, unshipped: true, forTests: true},
	{folder: "internal/process", unshipped: true},
	{folder: "internal/zkframe", unshipped: true, forTests: true},
	{folder: "internal/progtest", ours: []string{"internal/hang"}, forTests: true},
	{folder: "internal/hooktest", ours: []string{"session"}, forTests: true},
	{folder: "internal/metronome", unshipped: true, forTests: true},
	{folder: "internal/hang", unshipped: true, forTests: true},
	{folder: "internal/glossary", unshipped: true, forTests: true},
	{folder: "internal/tier", unshipped: true, forTests: true},
	{folder: "internal/rollout", unshipped: true, forTests: true},
	{folder: "internal/once", ours: []string{"session", "internal/door"}},
	{folder: "internal/schema", ours: []string{"session", "recipes/yield", "internal/door", "internal/owner"}},
	{folder: "internal/inspect", ours: []string{"session", "recipes/yield", "internal/door", "internal/schema"}},
	{folder: "internal/waitfor", ours: []string{"session/driver", "internal/rule", "internal/schema"}},
	{folder: "ui", ours: []string{"session", "session/driver", "recipes/yield", "internal/door", "internal/engine", "internal/rule", "internal/schema", "internal/inspect", "internal/waitfor"}},
	{folder: "internal/door"},
	{folder: "internal/ticks"},
	{folder: "internal/candidate", ours: []string{"session", "recipes/...", "internal/recipe"}},
	{
		folder:  "adapters/gocron",
		ours:    []string{"session", "recipes/...", "internal/candidate", "internal/recipe", "internal/ticks"},
		outside: []string{"github.com/go-co-op/gocron/v2", "github.com/jonboulle/clockwork", "github.com/google/uuid"},
	},
	{
		folder:  "adapters/certmagic",
		ours:    []string{"session", "recipes/...", "internal/recipe"},
		outside: []string{"github.com/caddyserver/certmagic", "go.uber.org/zap"},
	},
	{
		folder:  "adapters/cron",
		ours:    []string{"session", "recipes/...", "internal/candidate", "internal/ticks"},
		outside: []string{"github.com/robfig/cron/v3"},
	},
	{
		folder:  "adapters/goose",
		ours:    []string{"session", "recipes/..."},
		outside: []string{"github.com/pressly/goose/v3"},
	},
	{
		folder:  "adapters/migrate",
		ours:    []string{"session", "recipes/..."},
		outside: []string{"github.com/golang-migrate/migrate/v4"},
	},
	{
		folder:  "adapters/leaderelection",
		ours:    []string{"session", "recipes/...", "internal/recipe"},
		outside: []string{"k8s.io/client-go/tools/leaderelection", "k8s.io/apimachinery", "k8s.io/klog/v2", "github.com/go-logr/logr"}, // the last two for tests
	},
	{
		folder:   "itest/sim",
		ours:     []string{"membackend", "recipes/...", "internal/door", "internal/hooktest", "internal/memory", "internal/process", "internal/rule", "session", "session/driver", "fault", "itest/..."},
		forTests: true, unshipped: true,
	},
	{folder: "internal/..."},

	{folder: "etcdtest/...", ours: []string{"etcdtest/...", "internal/...", "internal/hang", "internal/process", "internal/testserver", "fault", "testnet"}, outside: []string{anything}, unshipped: true, forTests: true},
	{folder: "zktest/...", ours: []string{"zktest/...", "internal/...", "internal/hang", "internal/process", "internal/testserver", "fault", "testnet"}, outside: []string{anything}, unshipped: true, forTests: true},
	{folder: "pgtest/...", ours: []string{"pgtest/...", "internal/...", "internal/hang", "internal/process", "internal/testserver", "fault", "testnet"}, outside: []string{anything}, unshipped: true, forTests: true},
	{folder: "redistest/...", ours: []string{"redistest/...", "internal/...", "internal/hang", "internal/process", "internal/testserver", "fault", "testnet"}, outside: []string{anything}, unshipped: true, forTests: true},
	{folder: "mysqltest/...", ours: []string{"internal/hang", "internal/process", "internal/testserver"}, outside: []string{anything}, unshipped: true, forTests: true},
	{folder: "itest/...", ours: []string{anything}, outside: []string{anything}, unshipped: true, forTests: true},
	{folder: "bench/...", ours: []string{anything}, outside: []string{anything}, unshipped: true},
	{folder: "cmd/...", ours: []string{anything}, outside: []string{anything}, unshipped: true},
	{
		folder:    "examples/...", // what users copy, so nothing that they cannot import
		ours:      []string{"session", "recipes/...", "recipes/yield", "fence/...", "membackend", "etcdbackend/...", "pgbackend/...", "redisbackend/...", "zkbackend/...", "etcdtest/...", "zktest/...", "pgtest/...", "redistest/...", "mysqltest/...", "fault", "testnet", "telemetry/health", "telemetry/waits"},
		outside:   []string{anything},
		unshipped: true,
	},
}

// forTestsOnly are prefixes of the packages that _test.go files may import,
// and the code of packages that exist for tests.
var forTestsOnly = []string{"github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak"}

// testOurs are the rules whose packages any _test.go file may import in
// addition to what its package may: tests and examples run on the memory
// backend.
var testOurs = []string{
	"session", "session/driver", "fault", "internal/door", "internal/engine", "internal/owner", "internal/rule", "session/driver/drivertest", "recipes/...", "recipes/recipetest", "recipes/yield", "fence/...", "membackend", "internal/memory", "internal/memtest",
	"telemetry/telemetrytest", "internal/fencetest", "internal/glossary", "internal/progtest", "internal/hooktest", "internal/tier", "internal/rollout", "internal/metronome", "internal/hang",
}

// An arch is one package as the import rules see it.
type arch struct {
	folder string
	code   []string // import paths of its files
	tests  []string // import paths of its _test.go files, of both packages
}

// importViolations returns one sentence per import that rules do not allow.
func importViolations(rules []rule, packages []arch) []string {
	var bad []string
	for _, p := range packages {
		r, ok := ruleFor(rules, p.folder)
		if !ok {
			bad = append(bad, fmt.Sprintf("package %s has no rule in arch_test.go", p.folder))
			continue
		}
		for _, path := range p.code {
			if why := forbidden(rules, r, path, false); why != "" {
				bad = append(bad, fmt.Sprintf("package %s must not import %s: %s", p.folder, path, why))
			}
		}
		for _, path := range p.tests {
			if path == importPath(p.folder) {
				continue // an external test imports what it tests
			}
			if why := forbidden(rules, r, path, true); why != "" {
				bad = append(bad, fmt.Sprintf("tests of package %s must not import %s: %s", p.folder, path, why))
			}
		}
	}
	return bad
}

// forbidden returns why r does not allow an import, or "" if it does.
func forbidden(rules []rule, r rule, path string, inTest bool) string {
	if folder, ok := ourFolder(path); ok {
		target, known := ruleFor(rules, folder)
		allowed := slices.Contains(r.ours, anything) || slices.Contains(r.ours, target.folder) ||
			inTest && slices.Contains(testOurs, target.folder)
		switch {
		case known && allowed:
			return ""
		case target.unshipped && !r.unshipped:
			return "it is not shipped, and a user's go mod tidy would follow it"
		}
		return fmt.Sprintf("the rule for %s does not name it", r.folder)
	}
	first, _, _ := strings.Cut(path, "/")
	switch {
	case !strings.Contains(first, "."), within(path, "golang.org/x"):
		return ""
	case withinAny(path, forTestsOnly):
		if inTest || r.forTests {
			return ""
		}
		return "it is for tests only"
	case slices.Contains(r.outside, anything), withinAny(path, r.outside):
		return ""
	case within(path, "go.etcd.io/etcd/server"):
		return "a user's go mod tidy would follow it to etcd's server"
	}
	return fmt.Sprintf("the rule for %s does not name this dependency", r.folder)
}

func ruleFor(rules []rule, folder string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool {
		if tree, ok := strings.CutSuffix(r.folder, "/..."); ok {
			return within(folder, tree)
		}
		return folder == r.folder
	})
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

func importPath(folder string) string {
	if folder == "." {
		return modulePath
	}
	return modulePath + "/" + folder
}

// ourFolder is the inverse of importPath. It reports whether path is of this
// module.
func ourFolder(path string) (string, bool) {
	if path == modulePath {
		return ".", true
	}
	return strings.CutPrefix(path, modulePath+"/")
}

func within(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

func withinAny(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return within(path, prefix) })
}

func TestImportsGoOneWay(t *testing.T) {
	atRoot(t)
	packages := map[string]*arch{}
	for _, f := range sources(t) {
		p := packages[f.folder]
		if p == nil {
			p = &arch{folder: f.folder}
			packages[f.folder] = p
		}
		if f.test {
			p.tests = append(p.tests, f.imports()...)
		} else {
			p.code = append(p.code, f.imports()...)
		}
	}
	require.NotEmpty(t, packages)

	var all []arch
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		p := packages[folder]
		slices.Sort(p.code)
		slices.Sort(p.tests)
		all = append(all, arch{folder, slices.Compact(p.code), slices.Compact(p.tests)})
	}

	for _, sentence := range importViolations(importRules, all) {
		t.Error(sentence)
	}
}

func TestImportRulesForbid(t *testing.T) {
	atRoot(t)
	const ours = modulePath + "/"
	for _, c := range []struct {
		folder, imports string
		inTest          bool
	}{
		{folder: ".", imports: ours + "recipes/mutex"},
		{folder: ".", imports: ours + "etcdtest", inTest: true},
		{folder: "session/driver", imports: ours + "session"},
		{folder: "session/driver", imports: ours + "internal/names"},
		{folder: "session", imports: ours + "internal/queue"},
		{folder: "session", imports: ours + "membackend"},
		{folder: "session", imports: "go.etcd.io/etcd/client/v3"},
		{folder: "internal/engine", imports: ours + "session"},
		{folder: "internal/queue", imports: ours + "internal/engine"},
		{folder: "internal/queue", imports: ours + "session"},
		{folder: "internal/rule", imports: ours + "internal/queue"},
		{folder: "internal/queue", imports: ours + "recipes/mutex"},
		{folder: "internal/names", imports: ours + "session"},
		{folder: "recipes/mutex", imports: ours + "etcdbackend"},
		{folder: "recipes/mutex", imports: ours + "recipes/rwlock"},
		{folder: "recipes/mutex", imports: "google.golang.org/grpc"},
		{folder: "recipes/mutex", imports: ours + "etcdbackend", inTest: true},
		{folder: "recipes/mutex", imports: ours + "etcdtest", inTest: true},
		{folder: "recipes/mutex", imports: "github.com/stretchr/testify/require"},
		{folder: "recipes/recipetest", imports: ours + "membackend"},
		{folder: "membackend", imports: ours + "internal/queue"},
		{folder: "fence", imports: ours + "internal/door"},
		{folder: "examples/leader", imports: ours + "internal/door"},
		{folder: "membackend", imports: ours + "recipes/mutex"},
		{folder: "membackend", imports: ours + "session/driver/drivertest"},
		{folder: "fault", imports: ours + "session/driver"},
		{folder: "session/driver/drivertest", imports: ours + "membackend"},
		{folder: "etcdbackend", imports: ours + "zkbackend"},
		{folder: "etcdbackend", imports: ours + "zkbackend", inTest: true},
		{folder: "etcdbackend", imports: ours + "testnet", inTest: true},
		{folder: "etcdbackend", imports: ours + "internal/testserver", inTest: true},
		{folder: "etcdbackend", imports: "go.etcd.io/etcd/server/v3/embed"},
		{folder: "etcdbackend", imports: "go.etcd.io/etcd/server/v3/embed", inTest: true},
		{folder: "zkbackend", imports: "go.etcd.io/etcd/client/v3"},
		{folder: "zkbackend", imports: ours + "zktest", inTest: true},
		{folder: "zkbackend", imports: ours + "pgtest", inTest: true},
		{folder: "pgtest", imports: ours + "recipes/mutex"},
		{folder: "redistest", imports: ours + "recipes/mutex"},
		{folder: "zkbackend", imports: ours + "redistest", inTest: true},
		{folder: "mysqltest", imports: ours + "recipes/mutex"},
		{folder: "zkbackend", imports: ours + "mysqltest", inTest: true},
		{folder: "etcdtest", imports: ours + "recipes/mutex"},
		{folder: "examples/worker", imports: ours + "internal/queue"},
		{folder: "cmd/fairlock", imports: "pgregory.net/rapid"},
		{folder: "session", imports: ours + "nowhere"},
		{folder: "session", imports: ours + "telemetry"},
		{folder: "telemetry", imports: "github.com/prometheus/client_golang/prometheus"},
		{folder: "telemetry", imports: ours + "telemetry/telemetrytest"},
		{folder: "telemetry/otel", imports: "github.com/prometheus/client_golang/prometheus"},
		{folder: "telemetry/prometheus", imports: ours + "membackend"},
	} {
		made := arch{folder: c.folder, code: []string{c.imports}}
		if c.inTest {
			made = arch{folder: c.folder, tests: []string{c.imports}}
		}

		bad := importViolations(importRules, []arch{made})

		if assert.Len(t, bad, 1, "%s imports %s, test: %t", c.folder, c.imports, c.inTest) {
			assert.Contains(t, bad[0], "package "+c.folder+" must not import "+c.imports+": ")
		}
	}

	bad := importViolations(importRules, []arch{{folder: "util"}})
	assert.Equal(t, []string{"package util has no rule in arch_test.go"}, bad)
}

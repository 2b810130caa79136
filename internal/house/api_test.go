package house

import (
	"bytes"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// apiPage lists every identifier that the module exports, one on each line, so that a
// review shows a change. An identifier is a type, function, constant, variable, method or
// field.
const apiPage = "docs/api.txt"

var updateAPI = flag.Bool("update-api", false, "write "+apiPage+" instead of comparing it")

// usersPackages are for users' programs and tests. The buckets below fence/casfence are not
// here: their clients take longer to compile than all the rest, and they export two names each.
var usersPackages = []string{
	"session", "stores", "recipes/mutex", "recipes/rwlock", "recipes/semaphore", "recipes/election", "fence", "fence/filefence", "fence/httpfence", "fence/redisfence", "fence/sqlfence", "fence/casfence",
	"membackend", "etcdbackend", "zkbackend", "pgbackend", "redisbackend", "etcdtest", "etcdtest/operator", "zktest", "pgtest", "redistest", "mysqltest", "testnet", "fault", "telemetry",
	"telemetry/health", "telemetry/otel", "telemetry/prometheus", "telemetry/waits", "ui", "adapters/cron", "adapters/gocron", "adapters/goose", "adapters/migrate",
}

// contractPackages are for the authors of backends, and of exporters of metrics.
var contractPackages = []string{"session/driver", "session/driver/drivertest", "recipes/recipetest", "telemetry/telemetrytest"}

// mostIdentifiers bounds how many identifiers packages with this prefix export: all
// but the fields of structs, and the fields.
var mostIdentifiers = map[string]struct{ names, fields int }{
	"session":  {95, 65},
	"recipes/": {63, 14}, // 7 of them are mutex.Named, for hosts that lock by name
}

// innerTypes are the exported functions whose signatures may have types that users cannot
// import, or that are not for users, each for a reason.
var innerTypes = []string{
	"session, func Engine",                // the door, which only this module can open
	"membackend, func Engine",             // the same
	"session, type Inside",                // what the door returns, so that go doc lists it there
	"membackend, type Inside",             // the same
	"etcdbackend, func NewBackend",        // for the conformance suite
	"zkbackend, func NewBackend",          // the same
	"pgbackend, func NewBackend",          // the same
	"pgbackend, func DialBackend",         // the same
	"pgbackend, func ConfigBackend",       // for stores, which sets certificates
	"pgbackend, func OpenBackend",         // the same
	"pgbackend, func Intercept",           // behind the door
	"pgbackend, method (Report) Keeps",    // for doctor
	"redisbackend, func NewBackend",       // for the conformance suite
	"redisbackend, func DialBackend",      // the same
	"redisbackend, func OpenBackend",      // for stores, which sets certificates
	"redisbackend, func Intercept",        // behind the door
	"redisbackend, method (Report) Keeps", // for doctor
	"membackend, method (*Store) Backend", // the same
	"membackend, method (*Client) Backend",
}

// exported returns packages as users see them, from the compiler's export data.
func exported(t *testing.T, folders []string) []*types.Package {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, folder := range folders {
		args = append(args, "./"+folder)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	var all []*types.Package
	for _, folder := range folders {
		p, err := from.Import(modulePath + "/" + folder)
		require.NoError(t, err)
		all = append(all, p)
	}
	return all
}

// An identifier is something that a package exports.
type identifier struct {
	text string       // as apiPage has it
	of   []types.Type // that its users see
}

// identifiers returns everything that a package exports.
func identifiers(p *types.Package) []identifier {
	short := strings.TrimPrefix(p.Path(), modulePath+"/")
	var all []identifier
	add := func(of types.Type, format string, args ...any) {
		all = append(all, identifier{short + ", " + fmt.Sprintf(format, args...), []types.Type{of}})
	}
	from := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Name()
	}
	typed := func(t types.Type) string { return types.TypeString(t, from) }
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Func:
			add(o.Type(), "func %s%s", name, strings.TrimPrefix(typed(o.Type()), "func"))
		case *types.Var:
			add(o.Type(), "var %s %s", name, typed(o.Type()))
		case *types.Const:
			add(o.Type(), "const %s %s = %s", name, typed(o.Type()), o.Val().ExactString())
		case *types.TypeName:
			addType(o, typed, add)
		}
	}
	return all
}

// addType adds a type with its fields and methods.
func addType(o *types.TypeName, typed func(types.Type) string, add func(types.Type, string, ...any)) {
	if o.IsAlias() {
		add(o.Type(), "type %s = %s", o.Name(), typed(types.Unalias(o.Type())))
		return
	}
	named, ok := o.Type().(*types.Named)
	if !ok {
		return
	}
	switch u := named.Underlying().(type) {
	case *types.Struct:
		add(nil, "type %s struct", o.Name())
		for f := range u.Fields() {
			if f.Exported() {
				add(f.Type(), "type %s struct, %s %s", o.Name(), f.Name(), typed(f.Type()))
			}
		}
	case *types.Interface:
		add(nil, "type %s interface", o.Name())
		for e := range u.EmbeddedTypes() {
			add(e, "type %s interface, %s", o.Name(), typed(e))
		}
		for m := range u.ExplicitMethods() {
			add(m.Type(), "type %s interface, %s%s", o.Name(), m.Name(), strings.TrimPrefix(typed(m.Type()), "func"))
		}
	default:
		add(u, "type %s %s", o.Name(), typed(u))
	}
	for m := range named.Methods() {
		if !m.Exported() {
			continue
		}
		of := o.Name()
		if _, pointer := m.Signature().Recv().Type().(*types.Pointer); pointer {
			of = "*" + of
		}
		add(m.Type(), "method (%s) %s%s", of, m.Name(), strings.TrimPrefix(typed(m.Type()), "func"))
	}
}

// inner returns the first type within t, as users see it, that is of the driver's contract
// or of a package that users cannot import; "" if there is none.
func inner(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), modulePath) &&
			(p.Path() == modulePath+"/session/driver" || strings.Contains(p.Path(), "/internal/")) {
			return t.String()
		}
		for arg := range t.TypeArgs().Types() {
			if found := inner(arg); found != "" {
				return found
			}
		}
	case *types.Signature:
		return firstInner(slices.Concat(slices.Collect(t.Params().Variables()), slices.Collect(t.Results().Variables())))
	case *types.Struct:
		return firstInner(slices.Collect(t.Fields()))
	case *types.Map:
		return inner(t.Key()) + inner(t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		return inner(t.Elem())
	}
	return ""
}

func firstInner(vars []*types.Var) string {
	for _, v := range vars {
		if found := inner(v.Type()); found != "" {
			return found
		}
	}
	return ""
}

// changes are the lines that only one of two lists has.
func changes(before, after []string) []string {
	var all []string
	for _, line := range before {
		if !slices.Contains(after, line) {
			all = append(all, "- "+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			all = append(all, "+ "+line)
		}
	}
	return all
}

func TestTheSurfaceIsThatOfThePage(t *testing.T) {
	atRoot(t)
	var now []string
	for _, p := range exported(t, slices.Concat(usersPackages, contractPackages)) {
		for _, id := range identifiers(p) {
			now = append(now, id.text)
		}
	}
	slices.Sort(now)
	if *updateAPI {
		require.NoError(t, os.WriteFile(apiPage, []byte(strings.Join(now, "\n")+"\n"), 0o600))
	}

	page, err := os.ReadFile(apiPage)
	require.NoError(t, err)
	diff := changes(strings.Split(string(bytes.TrimSpace(page)), "\n"), now)
	assert.Empty(t, diff, "the module exports what %s does not have (+), or no longer what it has (-):\n%s\nIf that is meant, run 'make api' and commit the page.",
		apiPage, strings.Join(diff, "\n"))
}

func TestTheSurfaceIsSmall(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile(apiPage)
	require.NoError(t, err)
	for prefix, most := range mostIdentifiers {
		names, fields := 0, 0
		for line := range strings.Lines(string(page)) {
			folder, id, _ := strings.Cut(line, ", ")
			switch {
			case strings.HasPrefix(id, "type Inside"): // for this project only
			case !within(folder, strings.TrimSuffix(prefix, "/")), !strings.HasSuffix(prefix, "/") && folder != prefix,
				slices.Contains(contractPackages, folder):
			case strings.Contains(id, " struct, "):
				fields++
			default:
				names++
			}
		}
		t.Logf("%s exports %d identifiers and %d fields", prefix, names, fields)
		assert.Positive(t, names, prefix)
		assert.LessOrEqual(t, names, most.names, "names of "+prefix)
		assert.LessOrEqual(t, fields, most.fields, "fields of "+prefix)
	}
}

// TestNoPageBeginsWithTheDoor: go doc lists a function at the head of a package, before all types,
// unless it returns one of them.
func TestNoPageBeginsWithTheDoor(t *testing.T) {
	atRoot(t)
	for _, folder := range []string{"session", "membackend"} {
		out, err := exec.CommandContext(t.Context(), "go", "doc", "./"+folder).Output()
		require.NoError(t, err)
		assert.Contains(t, string(out), "\n    func Engine(door.Key) Inside\n", folder)
		assert.NotContains(t, string(out), "\nfunc Engine", folder)
	}
}

// TestTheSurfaceHasNoInnerTypes: users' code would have to name a type that it cannot
// import, or one that may change in any version.
func TestTheSurfaceHasNoInnerTypes(t *testing.T) {
	atRoot(t)
	for _, p := range exported(t, usersPackages) {
		for _, id := range identifiers(p) {
			allowed := slices.ContainsFunc(innerTypes, func(name string) bool { return strings.HasPrefix(id.text, name) })
			for _, of := range id.of {
				if found := inner(of); found != "" && !allowed {
					t.Errorf("%s\n\tshows %s", id.text, found)
				}
			}
		}
	}
}

package house

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// entryPoints are the functions and methods that a user's code begins with, as apiPage
// has them. Each has an Example.
var entryPoints = regexp.MustCompile(`^(fairlock|session|recipes/\w+|fence|membackend|etcdbackend|zkbackend|pgbackend|redisbackend|etcdtest|zktest|pgtest|redistest|mysqltest|testnet|ui|telemetry|telemetry/\w+), ` +
	`(func|method \(\*?(Session|Mutex|RWLock|Semaphore|Election)\)) ([A-Z]\w*)\(`)

// plain are entry points that need no Example.
var plain = []string{
	"Engine", "NewBackend", "DialBackend", "ConfigBackend", "OpenBackend", "Intercept", // not for users
	"Name", "Options", "Close", "Printable", // their names explain them
	"rwlock.NewWith",                 // has no options yet
	"rwlock.Queue", "election.Queue", // as of a mutex
	"zktest.Find", "pgtest.Find", "redistest.Find", "mysqltest.Find", // for tools
	"pgbackend.Examine", "redisbackend.Examine", // for fairlock doctor
	"redisbackend.InitURL", // as Init
	"zkbackend.DigestAuth", // in ExampleOpen_secure
}

// TestEveryEntryPointHasAnExample: pkg.go.dev shows an Example below what it is named after.
func TestEveryEntryPointHasAnExample(t *testing.T) {
	atRoot(t)
	have := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && strings.HasPrefix(f.Name.Name, "Example") {
				have[s.folder+"."+f.Name.Name] = true
			}
		}
	}
	checked := 0
	for _, p := range exported(t, usersPackages) {
		folder, _ := ourFolder(p.Path())
		for _, id := range identifiers(p) {
			found := entryPoints.FindStringSubmatch(id.text)
			if found == nil || slices.Contains(plain, found[4]) || slices.Contains(plain, p.Name()+"."+found[4]) {
				continue
			}
			checked++
			example := "Example" + found[4]
			if found[3] != "" {
				example = "Example" + found[3] + "_" + found[4]
			}
			suffixed := false // ExampleMutex_Lock_timeout is one too
			for name := range have {
				suffixed = suffixed || strings.HasPrefix(name, folder+"."+example+"_") && !ast.IsExported(strings.TrimPrefix(name, folder+"."+example+"_"))
			}
			assert.True(t, have[folder+"."+example] || suffixed, "%s: write %s", id.text, example)
		}
	}
	require.Greater(t, checked, 40)
}

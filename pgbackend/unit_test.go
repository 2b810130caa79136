package pgbackend

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

func TestOptionsAreCheckedBeforeAnythingIsSent(t *testing.T) {
	for name, o := range map[string]Options{
		"long schema":    {Schema: strings.Repeat("s", maxSchema+1)},
		"control schema": {Schema: "a\nb"},
		"NUL schema":     {Schema: "a\x00b"},
		"schema":         {Schema: "\xff"},
		"long root":      {Root: strings.Repeat("r", maxRoot+1)},
		"control root":   {Root: "a\x01q"},
		"root":           {Root: "\xff"},
		"listen":         {Listen: "postgres://%zz"},
	} {
		_, err := DialBackend("postgres://localhost/db", &o)
		require.ErrorIs(t, err, session.ErrInvalidOptions, name)
	}
	_, err := DialBackend("postgres://%zz", nil)
	require.ErrorIs(t, err, session.ErrInvalidOptions)
	for _, o := range []*Options{nil, {}, {Schema: strings.Repeat("s", maxSchema), Root: strings.Repeat("r", maxRoot)}, {Schema: `we"ird`, Root: "a/b"}} {
		b, err := DialBackend("postgres://localhost/db", o)
		require.NoError(t, err)
		require.NoError(t, b.Close())
	}
}

func TestSchemaChecksItsArguments(t *testing.T) {
	for _, c := range []struct {
		schema string
		maxTTL time.Duration
	}{{"a\nb", 0}, {strings.Repeat("s", 64), 0}, {"", time.Second}, {"", -time.Minute}} {
		_, err := Schema(c.schema, c.maxTTL)
		require.ErrorIs(t, err, session.ErrInvalidOptions, "%q %s", c.schema, c.maxTTL)
		require.ErrorIs(t, Apply(t.Context(), nil, c.schema, c.maxTTL), session.ErrInvalidOptions, "nothing is sent")
	}
	text, err := Schema("", 0)
	require.NoError(t, err)
	assert.Contains(t, text, `create schema if not exists "fairlock";`)
	assert.Contains(t, text, "60000")
	assert.True(t, strings.HasSuffix(text, ";\n"))
}

func TestTheCommandNamesTheSchema(t *testing.T) {
	b, err := newBackend(must(pgx.ParseConfig("postgres://h/d")), &Options{Schema: "locks"})
	require.NoError(t, err)
	assert.Contains(t, b.command(), "fairlock schema postgres --apply --schema locks")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestEachHostIsTriedOnce(t *testing.T) {
	for url, want := range map[string][]string{
		"postgres://a/d?sslmode=prefer":                  {"a:5432"},
		"postgres://a:1,b:2,c/d?sslmode=disable":         {"a:1", "b:2", "c:5432"},
		"postgres://a:1,b:2/d?sslmode=prefer":            {"a:1", "b:2"},
		"host=/tmp,/var/run port=7 dbname=d user=u":      {"/tmp:7", "/var/run:7"},
		"postgres://a:1,a:2/d?target_session_attrs=any":  {"a:1", "a:2"},
		"postgres://[::1]:7/d?sslmode=disable&host=b,::": nil,
	} {
		c, err := pgx.ParseConfig(url)
		if want == nil {
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, want, hosts(c), url)
		var each []string
		for _, s := range separate(c) {
			require.Len(t, hosts(s), 1)
			assert.Nil(t, s.ValidateConnect)
			each = append(each, hosts(s)...)
		}
		assert.Equal(t, want, each, url)
		assert.Equal(t, len(want) > 1, ours(c).ValidateConnect != nil, "of several hosts, the one that takes writes: %s", url)
	}
}

func TestOpsSayWhatBecameOfThem(t *testing.T) {
	now, earlier := int64(9), int64(7)
	was := driver.Record{Value: []byte("old"), Version: 5, Token: 5}
	old := opAnswer{there: true, was: []byte("old"), at: 5}
	met := opAnswer{met: true, there: true, was: []byte("old"), at: 5}
	write := driver.Op{Record: "r", Value: []byte("new")}
	for name, c := range map[string]struct {
		answer  opAnswer
		op      driver.Op
		now     *int64
		earlier *int64
		want    driver.Result
	}{
		"written":              {met, write, &now, nil, driver.Result{Done: true, Record: driver.Record{Value: []byte("new"), Version: 9, Token: 9}}},
		"deleted":              {met, driver.Op{Record: "r"}, &now, nil, driver.Result{Done: true}},
		"refused":              {old, driver.Op{Record: "r", Value: []byte("new"), Optional: true}, &now, nil, driver.Result{Record: was}},
		"refused, none":        {opAnswer{}, driver.Op{Record: "r", Value: []byte("new"), Optional: true}, &now, nil, driver.Result{}},
		"equal or absent":      {met, driver.Op{Record: "r", Value: []byte("old"), If: driver.Cond{Kind: driver.IfEqualOrAbsent, Value: []byte("old")}}, &now, nil, driver.Result{Done: true, Record: was}},
		"by an earlier":        {opAnswer{there: true, was: []byte("new"), at: 7}, driver.Op{Record: "r", Value: []byte("new"), Optional: true}, nil, &earlier, driver.Result{Done: true, Record: driver.Record{Value: []byte("new"), Version: 7, Token: 7}}},
		"not by an earlier":    {old, driver.Op{Record: "r", Value: []byte("new"), Optional: true}, nil, &earlier, driver.Result{Record: was}},
		"required, by earlier": {old, write, nil, &earlier, driver.Result{Done: true, Record: was}},
		"nothing was done":     {old, write, nil, nil, driver.Result{Record: was}},
	} {
		assert.Equal(t, c.want, c.answer.result(c.op, c.now, c.earlier), name)
	}
}

func TestAConditionOfAnEmptyValueIsNotNull(t *testing.T) {
	var a opArgs
	a.add(1, []driver.Op{{Record: "r", If: driver.Cond{Kind: driver.IfEqual}}})
	assert.Equal(t, [][]byte{{}}, a.wanted)
	assert.Equal(t, [][]byte{nil}, a.values, "but a deletion is")
	var none opArgs
	for _, arg := range none.args() {
		assert.NotNil(t, arg)
	}
}

// entries are entries at places.
func entries(places ...int64) []driver.Entry {
	var all []driver.Entry
	for _, p := range places {
		all = append(all, driver.Entry{Ref: driver.Ref{Place: p}})
	}
	return all
}

func TestAViewIsCompleteIfNothingIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		req      driver.ReadRequest
		read     []driver.Entry
		counted  int
		complete bool
		want     []driver.Entry
		count    int
	}{
		"all":                        {driver.ReadRequest{}, entries(1, 2, 3), 9, true, entries(1, 2, 3), 3},
		"none":                       {driver.ReadRequest{Nearest: 2}, nil, 5, true, nil, 0},
		"the first, all":             {driver.ReadRequest{Nearest: 2}, entries(1, 2), 2, true, entries(1, 2), 2},
		"the first, one more":        {driver.ReadRequest{Nearest: 2}, entries(1, 2, 3), 7, false, entries(1, 2), 7},
		"counted after some left":    {driver.ReadRequest{Nearest: 2}, entries(1, 2, 3), 0, false, entries(1, 2), 3},
		"up to one":                  {driver.ReadRequest{Nearest: 1, Upto: 5}, entries(4, 5), 2, true, entries(4, 5), 2},
		"up to one, one more before": {driver.ReadRequest{Nearest: 1, Upto: 5}, entries(3, 4, 5), 9, false, entries(4, 5), 9},
		"from one up to another":     {driver.ReadRequest{Nearest: 1, From: 4, Upto: 6}, entries(2, 3, 4, 5, 6), 6, false, entries(3, 4, 5, 6), 6},
		"from one, few before":       {driver.ReadRequest{Nearest: 1, From: 4, Upto: 6}, entries(3, 4, 5, 6), 6, true, entries(3, 4, 5, 6), 4},
	} {
		r := &read{req: &c.req, view: driver.View{Entries: c.read, Count: c.counted}}
		r.complete()
		assert.Equal(t, driver.View{Entries: c.want, Count: c.count, Complete: c.complete}, r.view, name)
	}
}

func TestFloorsOnlyRiseAndAreBounded(t *testing.T) {
	var f floors
	assert.Zero(t, f.of("q"))
	f.raise("q", 7)
	f.raise("q", 5)
	assert.EqualValues(t, 7, f.of("q"))
	for i := range 3 * mostFloors {
		f.raise(strings.Repeat("x", i%97)+string(rune('a'+i%26))+time.Duration(i).String(), 1)
	}
	assert.LessOrEqual(t, len(f.all), mostFloors)
}

func TestCallsAreForgottenOnce(t *testing.T) {
	var c calls
	for i := range int64(250) {
		c.add(i)
	}
	for range 3 {
		some := c.some()
		assert.LessOrEqual(t, len(some), 100, "one request stays small")
		c.remove(some)
	}
	assert.Empty(t, c.some())
}

func TestNumbersOfChangesRise(t *testing.T) {
	b, err := newBackend(must(pgx.ParseConfig("postgres://h/d")), nil)
	require.NoError(t, err)
	last := int64(0)
	for range 1000 {
		n := b.next()
		require.Greater(t, n, last)
		last = n
	}
}

func TestTheLookIsFarShorterThanTheTTL(t *testing.T) {
	for _, ttl := range []time.Duration{minTTL, 15 * time.Second, 10 * time.Minute} {
		s := &pgSession{cfg: driver.Config{TTL: ttl}}
		assert.LessOrEqual(t, s.tick(), min(ttl/8, observerTick))
		assert.Less(t, lag(ttl), ttl-ttl/10, "several renewals fit before the deadline")
	}
	assert.False(t, errors.Is(errLife, driver.ErrUnavailable))
	require.ErrorIs(t, errLife, driver.ErrSessionOver)
}

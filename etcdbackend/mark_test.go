package etcdbackend

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

func TestMarksStandAmongWhatAnEntrySays(t *testing.T) {
	said := driver.Meta{Kind: "rwlock", Host: "web-2", PID: 7, Holds: []string{"a"}}
	for _, m := range []mark{{}, {Shared: true}, {Admitted: true}, {Shared: true, Admitted: true}} {
		value := m.write(said.Encode())
		assert.True(t, json.Valid(value), "%s", value)
		assert.Equal(t, m, readMark(value))
		got, ok := driver.DecodeMeta(value)
		assert.True(t, ok)
		assert.Equal(t, said, got)
	}
	assert.JSONEq(t, `{"shared":true}`, string(mark{Shared: true}.write([]byte("{}"))))
	for _, v := range []string{"", "shared", "{", `{"shared":1}`, "[]", strings.Repeat(" ", maxMarked) + `{"shared":true}`} {
		assert.Zero(t, readMark([]byte(v)), "%.20q", v)
	}
}

func TestEntryIsWhatItHasBecome(t *testing.T) {
	l := layout{root: "r"}
	said := driver.Meta{Kind: "rwlock"}.Encode()
	for _, c := range []struct {
		key     string
		version int64
		mark    mark
		want    driver.Entry // only Mode and Admitted
		keyOnly driver.Entry
		unclear bool
	}{
		{key: "abc.0", version: 1},
		{key: "abc.0", version: 2, unclear: true},
		{key: "abc.0", version: 2, mark: mark{Shared: true}, want: driver.Entry{Mode: driver.Shared}, unclear: true},
		{key: "abc.0", version: 2, mark: mark{Admitted: true}, want: driver.Entry{Admitted: true}, unclear: true},
		{key: "abc.0.r", version: 1, want: driver.Entry{Mode: driver.Shared}, keyOnly: driver.Entry{Mode: driver.Shared}},
		{key: "abc.0.w3", version: 1, want: driver.Entry{Mode: driver.Weighted}, keyOnly: driver.Entry{Mode: driver.Weighted}},
		{
			key: "abc.0.w3", version: 2, mark: mark{Admitted: true},
			want: driver.Entry{Mode: driver.Weighted, Admitted: true}, keyOnly: driver.Entry{Mode: driver.Weighted, Admitted: true},
		},
		{key: "abc.0.w3", version: 1, mark: mark{Shared: true}, want: driver.Entry{Mode: driver.Weighted}, keyOnly: driver.Entry{Mode: driver.Weighted}},
		{key: "abc.0.v", version: 9, mark: mark{Shared: true, Admitted: true}}, // the user's own words
		{key: "by-hand", version: 1, mark: mark{Shared: true}, unclear: true},
	} {
		kv := &mvccpb.KeyValue{Key: []byte("r/x/" + c.key), CreateRevision: 5, Version: c.version, Value: c.mark.write(said)}
		full, brief := l.entry("x", kv, true), l.entry("x", kv, false)
		assert.Equal(t, [2]any{c.want.Mode, c.want.Admitted}, [2]any{full.Mode, full.Admitted}, "%s %v", c.key, c.mark)
		assert.Equal(t, [2]any{c.keyOnly.Mode, c.keyOnly.Admitted}, [2]any{brief.Mode, brief.Admitted}, "%s %v, without its value", c.key, c.mark)
		assert.Equal(t, c.unclear, l.unclear("x", kv), "%s, written %d times", c.key, c.version)
		assert.Nil(t, full.Value, "only lists show values")
	}
}

func TestListsShowValuesThatAreNotOurs(t *testing.T) {
	l := layout{root: "r"}
	ours := driver.Meta{Kind: "mutex"}.Encode()
	said := map[string][]byte{"r/%beside/x/meta/abc.0.v": driver.Meta{Kind: "election"}.Encode()}
	for _, c := range []struct {
		key   string
		value []byte
		want  []byte
		kind  string
	}{
		{"abc.0", ours, nil, "mutex"},
		{"abc.0", []byte("overwritten"), []byte("overwritten"), ""},
		{"abc.0.v", []byte("http://web-2"), []byte("http://web-2"), "election"},
		{"abc.0.v", nil, []byte{}, "election"},
		{"abc.0.v", ours, ours, "election"}, // however much it looks like ours
		{"abc.1.v", []byte("x"), []byte("x"), ""},
		{"by-hand", ours, ours, ""},
	} {
		e := l.listed("x", &mvccpb.KeyValue{Key: []byte("r/x/" + c.key), CreateRevision: 5, Value: c.value}, said)
		assert.Equal(t, c.want, e.Value, c.key)
		assert.Equal(t, c.kind, e.Meta.Kind, c.key)
	}
}

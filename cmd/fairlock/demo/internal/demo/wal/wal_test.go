package wal

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/pgtest"
)

// message builds a message: a string is a text that ends with a zero.
func message(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case byte:
			b = append(b, p)
		case string:
			b = append(b, p...)
			b = append(b, 0)
		case []byte:
			b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
			b = append(b, p...)
		case int16:
			b = binary.BigEndian.AppendUint16(b, uint16(p))
		case int32:
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(p))
		}
	}
	return b
}

func relation() []byte {
	column := func(key byte, name string) []byte { return message(key, name, int32(20), int32(-1)) }
	return append(message(byte('R'), int32(7), "public", "t", byte('d'), int16(2)), append(column(1, "id"), column(0, "data")...)...)
}

func TestChangesHaveTheirTableAndTheCommit(t *testing.T) {
	d := newDecoder()
	for _, m := range [][]byte{message(byte('B'), int64(99), int64(0), int32(3)), relation(), message(byte('C'))} {
		_, ok, err := d.decode(m)
		require.NoError(t, err)
		assert.False(t, ok)
	}

	made, ok, err := d.decode(message(byte('I'), int32(7), byte('N'), int16(2), byte('t'), []byte("12"), byte('n')))
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, Change{Table: "t", Made: true, Columns: map[string][]byte{"id": []byte("12")}, Commit: 99}, made)
	gone, ok, err := d.decode(message(byte('D'), int32(7), byte('K'), int16(2), byte('t'), []byte("12"), byte('n')))
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, Change{Table: "t", Columns: map[string][]byte{"id": []byte("12")}, Commit: 99}, gone)
}

func TestAMessageThatIsDamagedIsAnError(t *testing.T) {
	whole := message(byte('I'), int32(7), byte('N'), int16(2), byte('t'), []byte("12"), byte('t'), []byte("x"))
	for n := range len(whole) {
		d := newDecoder()
		_, _, err := d.decode(relation())
		require.NoError(t, err)

		_, _, err = d.decode(whole[:n])

		assert.Error(t, err, "the first %d bytes", n)
	}
	_, _, err := newDecoder().decode(whole)
	assert.ErrorContains(t, err, "a row", "of an unknown table")
	_, _, err = newDecoder().decode(relation()[:9])
	assert.Error(t, err)
}

func TestChangesComeInTheOrderOfTheCommits(t *testing.T) {
	s := pgtest.New(t, &pgtest.Options{Config: map[string]string{"wal_level": "logical"}})
	first, second := s.Conn(t), s.Conn(t)
	exec := func(sql string) { require.NoError(t, s.Exec(t.Context(), sql)) }
	exec("create table t (id integer primary key, data text); create table other (id integer primary key)")
	f, err := Begin(t.Context(), s.URL(), "t")
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close(t.Context()) })

	tx, err := first.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "insert into t values (1, 'late')")
	require.NoError(t, err)
	_, err = second.Exec(t.Context(), "insert into t values (2, 'early')")
	require.NoError(t, err)
	exec("insert into other values (5)")
	require.NoError(t, tx.Commit(t.Context()))
	exec("update t set data = 'new'")
	exec("delete from t where id = 2")

	var found []string
	var commits []int64
	done := t.Context()
	_ = f.Follow(done, func(c Change) {
		text := "deleted"
		if c.Made {
			text = "made"
		}
		found = append(found, strings.Join([]string{text, c.Table, string(c.Columns["id"])}, " "))
		commits = append(commits, c.Commit)
		if !c.Made {
			_ = f.Close(t.Context()) // ends Follow
		}
	})

	assert.Equal(t, []string{"made t 2", "made t 1", "deleted t 2"}, found)
	assert.IsIncreasing(t, commits)
}

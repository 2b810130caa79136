package demo

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wal"
	"github.com/fairlock/fairlock/internal/owner"
)

func TestReportPassesOnOnlyTheRowsOfTheQueue(t *testing.T) {
	s := &postgresService{queue: "fairlock\x01qledger"}
	row := func(queue, place, data string) map[string][]byte {
		return map[string][]byte{"queue": []byte(queue), "place": []byte(place), "data": []byte(data)}
	}
	meta := `\x` + hex.EncodeToString(owner.Meta{Label: "ada"}.Encode())
	var h recorded
	for _, c := range []wal.Change{
		{Table: "entry", Made: true, Commit: 50, Columns: row(s.queue, "4", meta)},
		{Table: "entry", Made: true, Commit: 51, Columns: row("fairlock\x01qledgers", "5", meta)},
		{Table: "entry", Commit: 60, Columns: row(s.queue, "4", "")},
		{Table: "demo_end", Made: true},
		{Table: "demo_end"},
	} {
		require.NoError(t, s.report(&h, c))
	}

	assert.Equal(t, recorded{"created 4 ada", "deleted 4 by 60", "marked"}, h)
	assert.Error(t, s.report(&h, wal.Change{Table: "entry", Made: true, Columns: row(s.queue, "x", "")}))
	assert.Error(t, s.report(&h, wal.Change{Table: "entry", Made: true, Columns: row(s.queue, "1", "zz")}))
}

func TestRowsAndSessionsThatAreLeftAreFound(t *testing.T) {
	svc, err := openPostgres(t.Context(), lockName)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, svc.close()) })
	s := svc.(*postgresService)
	rows, sessions, err := s.leftovers(t.Context())
	require.NoError(t, err)
	assert.Empty(t, rows)
	assert.Zero(t, sessions)
	_, err = s.admin.Exec(t.Context(), `insert into fairlock.session (id, root, ttl_ms) values (1, 'x', 2000)`)
	require.NoError(t, err)
	_, err = s.admin.Exec(t.Context(), `insert into fairlock.entry (queue, place, session, call, mode, weight, valued) values ($1, 7, 1, 1, 0, 1, false)`, s.queue)
	require.NoError(t, err)

	rows, sessions, err = s.leftovers(t.Context())
	require.NoError(t, err)
	first, ferr := s.first(t.Context())
	require.NoError(t, ferr)

	assert.Equal(t, []string{"entry 7"}, rows)
	assert.Equal(t, 1, sessions)
	assert.EqualValues(t, 7, first)
}

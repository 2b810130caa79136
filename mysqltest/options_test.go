package mysqltest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/mysqltest"
)

func TestSettingsAreThoseOfTheOptions(t *testing.T) {
	s := mysqltest.New(t, &mysqltest.Options{Config: map[string]string{
		"innodb-lock-wait-timeout": "7", "max_connections": "20", "init_connect": `set @a = "b\\c"`,
	}})
	db := connect(t, s)

	assert.Equal(t, 7, value[int](t, db, "select @@innodb_lock_wait_timeout"))
	assert.Equal(t, 20, value[int](t, db, "select @@max_connections"))
	assert.Equal(t, `set @a = "b\\c"`, value[string](t, db, "select @@init_connect"))
	assert.Equal(t, 1, value[int](t, db, "select @@innodb_flush_log_at_trx_commit"))

	for _, opts := range []*mysqltest.Options{
		{Config: map[string]string{"": "x"}},
		{Config: map[string]string{"a = b": "x"}},
		{Config: map[string]string{"a": "x\ny"}},
		{Config: map[string]string{"log-error": "/dev/null"}},
		{StartTimeout: -1},
		{Program: "nowhere"},
	} {
		_, err := mysqltest.Start(t.Context(), opts)
		require.ErrorContains(t, err, "mysqltest: ", "%+v", opts)
	}
	_, err := mysqltest.Start(t.Context(), &mysqltest.Options{Config: map[string]string{"no_such_setting": "x"}})
	require.ErrorContains(t, err, "no_such_setting")
}

func TestServersAreApart(t *testing.T) {
	one, two := mysqltest.New(t, nil), mysqltest.New(t, nil)
	execute(t, connect(t, one), "create table here (id int)")

	var name string
	err := connect(t, two).QueryRow("show tables").Scan(&name)

	require.Error(t, err, "it has another's table")
	assert.NotEqual(t, one.Addr(), two.Addr())
}

package mysqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"testing"

	"github.com/fairlock/fairlock/mysqltest"
)

func ExampleStart() {
	ctx := context.Background()
	server, err := mysqltest.Start(ctx, &mysqltest.Options{Config: map[string]string{"max_connections": "20"}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	db, err := sql.Open("mysql", server.DSN())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	var limit int
	if err := db.QueryRowContext(ctx, "select @@max_connections").Scan(&limit); err != nil {
		log.Fatal(err)
	}
	fmt.Println(limit)
	// Output: 20
}

// In a test: the server is closed when the test ends.
func ExampleNew() {
	t := new(testing.T) // that of the test

	server := mysqltest.New(t, nil)
	db, err := sql.Open("mysql", server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	server.Kill() // as a crash of the machine
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

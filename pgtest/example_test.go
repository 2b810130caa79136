package pgtest_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/pgtest"
)

func ExampleStart() {
	ctx := context.Background()
	server, err := pgtest.Start(ctx, &pgtest.Options{Config: map[string]string{"max_connections": "20"}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	conn, err := server.Connect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	var limit string
	if err := conn.QueryRow(ctx, "show max_connections").Scan(&limit); err != nil {
		log.Fatal(err)
	}
	fmt.Println(limit)
	// Output: 20
}

// In a test: the server and the connection are closed when the test ends.
func ExampleNew() {
	t := new(testing.T) // that of the test

	server := pgtest.New(t, nil)
	conn := server.Conn(t)
	if _, err := conn.Exec(t.Context(), "create table jobs (id bigint)"); err != nil {
		t.Fatal(err)
	}
	server.Kill() // as a crash of the machine
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func ExampleValue() {
	ctx := context.Background()
	server, err := pgtest.Start(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	if err := server.Exec(ctx, "create role app login"); err != nil {
		log.Fatal(err)
	}

	login, err := pgtest.Value[bool](ctx, server, "select rolcanlogin from pg_roles where rolname = $1", "app")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(login)
	// Output: true
}

// A failover that loses what the standby had not received.
func ExampleServer_Standby() {
	ctx := context.Background()
	server, err := pgtest.Start(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close() // and of the standby
	if err := server.Exec(ctx, "create table jobs (id bigint); insert into jobs values (1)"); err != nil {
		log.Fatal(err)
	}
	standby, err := server.Standby(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := standby.CutOff(ctx); err != nil {
		log.Fatal(err)
	}
	if err := server.Exec(ctx, "insert into jobs values (2)"); err != nil {
		log.Fatal(err)
	}

	server.Kill()
	if err := standby.Promote(ctx); err != nil {
		log.Fatal(err)
	}

	jobs, err := pgtest.Value[int](ctx, standby, "select count(*) from jobs")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(jobs)
	// Output: 1
}

func ExampleServer_Bouncer() {
	ctx := context.Background()
	server, err := pgtest.Start(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close() // and of the pooler
	pooler, err := server.Bouncer(ctx, &pgtest.BouncerOptions{Mode: "session"})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, pooler.URL()+"&default_query_exec_mode=exec")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	var role string
	if err := conn.QueryRow(ctx, "select current_user").Scan(&role); err != nil {
		log.Fatal(err)
	}
	fmt.Println(role)
	// Output: postgres
}

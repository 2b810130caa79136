package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/jackc/pgx/v5"
)

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	url := "postgres://app@127.0.0.1:7533/app?sslmode=disable"
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		panic(err)
	}
	fmt.Println(pgbackend.Apply(ctx, c, "", 0))
	fmt.Println(pgbackend.Apply(ctx, c, "", 0))
	s, err := pgbackend.Dial(ctx, url, nil)
	if err != nil {
		panic(err)
	}
	s2, err := pgbackend.Dial(ctx, url, nil)
	if err != nil {
		panic(err)
	}
	m, m2 := mutex.New(s, "a"), mutex.New(s2, "a")
	for range 3 {
		t := time.Now()
		h, err := m.Lock(ctx)
		if err != nil {
			panic(err)
		}
		lock := time.Since(t)
		_, err = m2.TryLock(ctx)
		fmt.Println(err)
		got := make(chan error)
		go func() {
			h, err := m2.Lock(ctx)
			if err == nil {
				q, args := pgbackend.Guard(h)
				var held bool
				tx, _ := c.Begin(ctx)
				fmt.Println(tx.QueryRow(ctx, q, args...).Scan(&held), held)
				tx.Rollback(ctx)
				fmt.Println(h.Token(), h.Unlock())
			}
			got <- err
		}()
		time.Sleep(300 * time.Millisecond)
		t = time.Now()
		fmt.Println(h.Token(), h.Unlock(), lock, time.Since(t))
		fmt.Println(<-got, time.Since(t))
	}
	fmt.Println(s.Close(), s2.Close())
}

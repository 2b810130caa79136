package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// putReport knows nothing of locks but that its callers hold one.
func putReport(ctx context.Context, url string) (*http.Request, error) {
	token, ok := session.TokenFrom(ctx)
	if !ok {
		return nil, errors.New("put a report: the caller holds no lock")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, http.NoBody)
	if err == nil {
		r.Header.Set(session.TokenHeader, token.String())
	}
	return r, err
}

// The token travels in the context, through functions without a parameter for it.
func ExampleTokenFrom() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	_, err = putReport(ctx, "http://reports/may")
	fmt.Println(err)
	err = mutex.New(s, "reports/may").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		r, err := putReport(ctx, "http://reports/may")
		if err == nil {
			fmt.Println(r.Header.Get(session.TokenHeader) == h.Token().String())
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// put a report: the caller holds no lock
	// true
	// <nil>
}

// Code far below the one that holds can see how much time is left.
func ExampleHoldFrom() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	pay := func(ctx context.Context) {
		h, ok := session.HoldFrom(ctx)
		fmt.Println(ok && h.Remaining() > 0)
	}

	pay(ctx)
	err = mutex.New(s, "account").Do(ctx, func(ctx context.Context, _ *session.Hold) error {
		pay(ctx)
		return nil
	})
	fmt.Println(err)
	// Output:
	// false
	// true
	// <nil>
}

// A row is fenced by its own lock, although another lock was acquired inside.
func ExampleHoldOf() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	row, err := mutex.New(s, "row").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer row.Unlock()
	ledger, err := mutex.New(s, "ledger").Lock(row.Context())
	if err != nil {
		log.Fatal(err)
	}
	defer ledger.Unlock()

	h, ok := session.HoldOf(ledger.Context(), "row")
	fmt.Println(ok && h.Token() == row.Token())
	h, ok = session.HoldFrom(ledger.Context())
	fmt.Println(ok && h.Token() == ledger.Token())
	// Output:
	// true
	// true
}

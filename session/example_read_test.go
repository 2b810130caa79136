package session_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// A client sends its token, and the resource reads it.
func ExampleParseToken() {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://storage/orders", http.NoBody)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set(session.TokenHeader, session.Token(42).String()) // h.Token()

	token, err := session.ParseToken(request.Header.Get(session.TokenHeader))
	fmt.Println(token, err)
	_, err = session.ParseToken("")
	fmt.Println(err != nil)
	// Output:
	// 42 <nil>
	// true
}

// Queue shows holders and waiters in order.
func ExampleSession_Queue() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	h, err := mutex.New(s, "backup").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	queue, err := s.Queue(ctx, "backup")
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range queue {
		fmt.Println(e.Place, e.State, e.Kind, e.Token)
	}
	// Output:
	// 1 holder mutex 1
}

// Health is for a readiness probe. It sends nothing.
func ExampleSession_Health() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if health := s.Health(); !health.Ready {
			http.Error(w, health.Err.Error(), http.StatusServiceUnavailable)
		}
	})
	fmt.Println(s.Health().Ready)
	// Output:
	// true
}

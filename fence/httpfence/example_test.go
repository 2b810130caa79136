package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/filefence"
	"github.com/fairlock/fairlock/fence/httpfence"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// get is a request of a hold, if ctx is the context of one.
func get(ctx context.Context, c *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	err = httpfence.Check(response)
	if err != nil {
		return err // the lock was lost
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	text, err := io.ReadAll(response.Body)
	fmt.Printf("%s\n", text)
	return err
}

// The server keeps the marks in a folder. A client that has lost the lock without knowing it
// comes too late.
func ExampleHandler() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "httpfence-*")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	account := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "balance 100") })
	mux := http.NewServeMux()
	byName := func(r *http.Request) string { return "account/" + r.PathValue("name") }
	mux.Handle("/accounts/{name}", httpfence.Handler(account, filefence.Folder(dir), byName, nil))
	server := httptest.NewServer(mux)
	defer server.Close()

	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	client := &http.Client{Transport: &httpfence.Transport{}}
	m := mutex.New(s, "account/ada")
	old, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store.Expire(store.Sessions()[0]) // while the holder is stopped
	err = m.Do(ctx, func(ctx context.Context, _ *session.Hold) error {
		return get(ctx, client, server.URL+"/accounts/ada")
	})
	if err != nil {
		log.Fatal(err)
	}

	late := context.WithoutCancel(old.Context()) // a process can be stopped after any check of it
	err = get(late, client, server.URL+"/accounts/ada")
	stale, _ := errors.AsType[*fence.StaleError](err)
	fmt.Println(errors.Is(err, fence.ErrStale), stale.Token < stale.Seen)
	fmt.Println(get(ctx, client, server.URL+"/accounts/ada"))
	// Output:
	// balance 100
	// true true
	// 428 Precondition Required
}

// A handler behind several processes checks the token where the data is, and answers a refusal as
// Handler does.
func ExampleRefuse() {
	update := func(ctx context.Context, path string, data []byte) error {
		token, _, _ := httpfence.Access(ctx)
		return filefence.Write(ctx, path, data, 0o644, token)
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		err := update(r.Context(), "/shared/report", []byte("new"))
		if httpfence.Refuse(w, "report", err) {
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	_ = http.HandlerFunc(handler)
}

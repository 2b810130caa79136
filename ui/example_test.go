package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/ui"
)

// The page on one's own mux, next to what the program serves already. A login belongs in
// front of it.
func ExampleHandler() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	mux := http.NewServeMux()
	mux.Handle("/debug/locks/", ui.Handler(s, &ui.Options{Title: "orders", Command: "fairlock --context orders"}))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/locks/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}

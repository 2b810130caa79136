package ui_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/ui"
)

// served returns the answer to a request without a body.
func served(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestThePageWorksBelowAnyPrefix(t *testing.T) {
	page := ui.Handler(nil, nil)
	mux := http.NewServeMux()
	mux.Handle("/a/b/", page)
	mux.Handle("/c/", http.StripPrefix("/c", page))
	mux.Handle("/d/", http.StripPrefix("/d/", page))

	for _, prefix := range []string{"/a/b/", "/c/", "/d/"} {
		assert.Contains(t, served(mux, http.MethodGet, prefix).Body.String(), "<!doctype html>")
		css := served(mux, http.MethodGet, prefix+"style.css")
		assert.Equal(t, http.StatusOK, css.Code)
		assert.Equal(t, "text/css; charset=utf-8", css.Header().Get("Content-Type"))
		again := served(mux, http.MethodGet, prefix+"style.css", "If-None-Match", css.Header().Get("Etag"))
		assert.Equal(t, http.StatusNotModified, again.Code)
	}
	assert.Equal(t, http.StatusMovedPermanently, redirect(served(mux, http.MethodGet, "/a/b").Code))
}

// redirect folds the codes of redirects, of which the mux may choose one.
func redirect(code int) int {
	if code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect {
		return http.StatusMovedPermanently
	}
	return code
}

func TestEveryAnswerForbidsFramesInlineCodeAndSniffing(t *testing.T) {
	h := ui.Handler(nil, nil)
	for _, path := range []string{"/", "/app.js", "/state", "/events", "/evict", "/nothing"} {
		head := served(h, http.MethodGet, path).Header()
		assert.Contains(t, head.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';", path)
		assert.Contains(t, head.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		assert.NotContains(t, head.Get("Content-Security-Policy"), "unsafe", path)
		assert.Equal(t, "nosniff", head.Get("X-Content-Type-Options"), path)
		assert.Equal(t, "DENY", head.Get("X-Frame-Options"), path)
		assert.Empty(t, head.Get("Access-Control-Allow-Origin"), path)
	}
}

func TestAnUnknownHostIsRefused(t *testing.T) {
	h := ui.Handler(nil, &ui.Options{Hosts: []string{"localhost", "127.0.0.1", "::1"}})
	for host, code := range map[string]int{
		"localhost:8080": 200, "LOCALHOST": 200, "localhost.": 200, "127.0.0.1:1": 200, "[::1]:80": 200, "[::1]": 200,
		"evil.example": 421, "evil.example:8080": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/state", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, code, w.Code, host)
	}
}

func TestReadsAreGETOnly(t *testing.T) {
	h := ui.Handler(nil, nil)
	for _, path := range []string{"/", "/state", "/events", "/lock"} {
		assert.Equal(t, http.StatusMethodNotAllowed, served(h, http.MethodPost, path).Code, path)
	}
}

// TestAPageThatCanActAdmitsAddressesOnly: a page of another site reaches a server on a loopback address
// by a name that it resolves to it, and would read the token.
func TestAPageThatCanActAdmitsAddressesOnly(t *testing.T) {
	code := func(o *ui.Options, host string) int {
		r := httptest.NewRequest(http.MethodGet, "/state", nil)
		r.Host = host
		w := httptest.NewRecorder()
		ui.Handler(nil, o).ServeHTTP(w, r)
		return w.Code
	}

	for host, want := range map[string]int{
		"localhost:8080": 200, "127.0.0.1:1": 200, "10.0.0.7": 200, "[::1]:80": 200, "evil.example": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		assert.Equal(t, want, code(&ui.Options{AllowEvict: true}, host), host)
		assert.Equal(t, 200, code(&ui.Options{AllowEvict: true, Hosts: []string{ui.AnyHost}}, host), host)
		assert.Equal(t, 200, code(nil, host), "it only reads: %s", host)
	}
}

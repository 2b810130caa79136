package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The headers of a request.
const (
	tokenHeader  = "Fencing-Token"
	workerHeader = "Worker"
)

// Server serves a Ledger over HTTP on loopback:
//
//	GET /balance, PUT /balance    with Fencing-Token and Worker as headers
//
// The answer to a stale token is 412 Precondition Failed.
type Server struct {
	ledger    *Ledger
	callbacks Callbacks
	http      http.Server
	addr      string
	done      chan struct{}

	mu     sync.Mutex
	newest int64 // the newest token that First was called with
}

// Callbacks are called when the ledger has handled a request. Each may be nil.
type Callbacks struct {
	// First is called when the first request of a token is accepted, before the answer
	// is sent. So the worker that sent it holds the lock, if any worker does.
	First func(ctx context.Context, token int64)

	// Changed is called after every request that the ledger has answered.
	Changed func()
}

// Serve starts a Server, which runs until Close.
func Serve(ctx context.Context, l *Ledger, c Callbacks) (*Server, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	s := &Server{ledger: l, callbacks: c, addr: ln.Addr().String(), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /balance", s.get)
	mux.HandleFunc("PUT /balance", s.put)
	s.http = http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // errors of a killed worker's connection are expected
	}
	go func() { // ends with Close, which waits for it
		defer close(s.done)
		_ = s.http.Serve(ln) // it always returns http.ErrServerClosed
	}()
	return s, nil
}

// URL returns the server's address.
func (s *Server) URL() string { return "http://" + s.addr }

// Close stops the server at once.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	token, worker, ok := s.caller(w, r)
	if !ok {
		return
	}
	balance, err := s.ledger.Read(token, worker)
	s.answer(r.Context(), w, token, err, strconv.FormatInt(balance, 10))
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	token, worker, ok := s.caller(w, r)
	if !ok {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64)) // a longer text is not a number
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	balance, err := strconv.ParseInt(string(body), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.answer(r.Context(), w, token, s.ledger.Write(token, worker, balance), "")
}

func (s *Server) caller(w http.ResponseWriter, r *http.Request) (token int64, worker string, ok bool) {
	token, err := strconv.ParseInt(r.Header.Get(tokenHeader), 10, 64)
	if err != nil {
		http.Error(w, tokenHeader+" is missing or not a number", http.StatusBadRequest)
		return 0, "", false
	}
	return token, r.Header.Get(workerHeader), true
}

func (s *Server) answer(ctx context.Context, w http.ResponseWriter, token int64, err error, text string) {
	switch {
	case errors.Is(err, ErrStale):
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		s.notifyFirst(ctx, token)
		_, _ = io.WriteString(w, text)
	}
	if s.callbacks.Changed != nil {
		s.callbacks.Changed()
	}
}

// notifyFirst calls First if the token is higher than all before.
func (s *Server) notifyFirst(ctx context.Context, token int64) {
	s.mu.Lock()
	isNew := token > s.newest
	s.newest = max(s.newest, token)
	s.mu.Unlock()
	if isNew && s.callbacks.First != nil {
		s.callbacks.First(ctx, token)
	}
}

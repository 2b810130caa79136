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

// What a request carries beside the balance.
const (
	tokenHeader  = "Fencing-Token"
	workerHeader = "Worker"
)

// Server serves a Ledger over HTTP on loopback:
//
//	GET /balance, PUT /balance    with Fencing-Token and Worker as headers
//
// A stale token is answered by 412 Precondition Failed.
type Server struct {
	ledger *Ledger
	watch  Watch
	http   http.Server
	addr   string
	done   chan struct{}

	mu    sync.Mutex
	touch int64 // the newest token that First was told of
}

// Watch is told what the ledger does. Both may be nil.
type Watch struct {
	// First is called at the first touch of a token that is let in, before it
	// is answered: whoever touches holds, if anybody does.
	First func(ctx context.Context, token int64)

	// Changed is called after every answer that changed anything.
	Changed func()
}

// Serve starts a Server. It ends with Close.
func Serve(ctx context.Context, l *Ledger, w Watch) (*Server, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	s := &Server{ledger: l, watch: w, addr: ln.Addr().String(), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /balance", s.get)
	mux.HandleFunc("PUT /balance", s.put)
	s.http = http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // a killed worker's connection is no news
	}
	go func() { // ends with Close, which waits for it
		defer close(s.done)
		_ = s.http.Serve(ln) // it always says that it was closed
	}()
	return s, nil
}

// URL is where it serves.
func (s *Server) URL() string { return "http://" + s.addr }

// Close ends it at once.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	token, who, ok := s.caller(w, r)
	if !ok {
		return
	}
	balance, err := s.ledger.Read(token, who)
	s.answer(r.Context(), w, token, err, strconv.FormatInt(balance, 10))
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	token, who, ok := s.caller(w, r)
	if !ok {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64)) // more is no number anyway
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	balance, err := strconv.ParseInt(string(body), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.answer(r.Context(), w, token, s.ledger.Write(token, who, balance), "")
}

func (s *Server) caller(w http.ResponseWriter, r *http.Request) (token int64, who string, ok bool) {
	token, err := strconv.ParseInt(r.Header.Get(tokenHeader), 10, 64)
	if err != nil {
		http.Error(w, tokenHeader+" is missing or no number", http.StatusBadRequest)
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
		s.first(ctx, token)
		_, _ = io.WriteString(w, text)
	}
	if s.watch.Changed != nil {
		s.watch.Changed()
	}
}

// first tells of a token that is new here.
func (s *Server) first(ctx context.Context, token int64) {
	s.mu.Lock()
	isNew := token > s.touch
	s.touch = max(s.touch, token)
	s.mu.Unlock()
	if isNew && s.watch.First != nil {
		s.watch.First(ctx, token)
	}
}

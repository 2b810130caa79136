package ui

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session"
)

//go:embed page
var pageFiles embed.FS

// AnyHost in Options.Hosts admits every Host header: for a page behind a proxy that checks
// the header.
const AnyHost = "*"

const (
	// DefaultInterval is the Interval of Options that set none.
	DefaultInterval = time.Second

	// MinInterval is the least Interval; a shorter one counts as this.
	MinInterval = 100 * time.Millisecond
)

// Options are for Handler. The zero Options read every second, show all locks, and allow
// no action.
type Options struct {
	// Title is the name of the service on the page. If it is empty, the page shows the
	// kind of the service: "etcd".
	Title string

	// Command is how the commands on the page begin. If it is empty, that is "fairlock", which
	// finds the service as in the operator's terminal; else, for example,
	// "fairlock --context prod". Every client that can open the page sees it, so it must
	// contain no password.
	Command string

	// Prefix restricts the page to locks whose names begin with it. It is no means of
	// security for the Session, only for the page.
	Prefix string

	// Interval is how often the service is read while a page is open. 0 means
	// DefaultInterval; less than MinInterval counts as MinInterval.
	Interval time.Duration

	// AllowEvict lets the page ask holders to yield, and evict entries. Evicting a holder
	// breaks its lock, see session.Session.Evict.
	AllowEvict bool

	// Token is the secret that actions need. A page has it if it was opened with #token=
	// and the Token at the end of its address; the others only read. Empty: every client
	// that can open the page can act. It has no effect without AllowEvict.
	Token string

	// Hosts are the names and addresses, without a port, under which the page may be
	// reached. A request with any other Host header is refused with 421. Empty: any; but
	// with AllowEvict only localhost and IP addresses, because a page of another site can
	// reach a server by a name that resolves to its address. AnyHost stands for any.
	Hosts []string

	// Logger receives each yield request and each eviction that the page makes. Nil means
	// slog.Default() at the call of Handler.
	Logger *slog.Logger
}

// Handler returns a handler that serves the page with the queues of the Session's
// service. A nil o means the zero Options. The Session stays the caller's: the handler
// reads through it and never closes it. When it is closed, open pages end, and further
// requests for data are answered with 503.
//
// The handler owns no goroutine between requests, see the package comment. It is safe for
// concurrent use. Each call of Handler makes a reader of its own, so make one handler for
// each Session. All requests of a page must reach the same handler, which numbers what it
// sends: with several replicas behind a load balancer, turn on session affinity.
func Handler(s *session.Session, o *Options) http.Handler {
	files, build := loadFiles()
	h := &handler{files: files, build: build, asked: map[string]func() error{}}
	if o != nil {
		h.Options = *o
	}
	if h.Interval == 0 {
		h.Interval = DefaultInterval
	}
	h.Interval = max(h.Interval, MinInterval)
	h.csrf = cmp.Or(h.Token, rand.Text())
	h.Command = plain(cmp.Or(h.Command, "fairlock"))
	if h.Logger == nil {
		h.Logger = slog.Default()
	}
	h.s, h.reader = s, newReader(s, h.Prefix, h.Interval)
	return h
}

// handler is what Handler returns.
type handler struct {
	Options

	s      *session.Session
	reader *reader
	files  map[string]file
	build  string // differs if a file of the page does: then a page loads itself again
	csrf   string // what actions must carry
	origin http.CrossOriginProtection

	mu    sync.Mutex
	asked map[string]func() error // withdraws the yield request for a lock
	since time.Time               // of the service session that these belong to

	packed struct {
		sync.Mutex
		seq    uint64
		closed bool // the Session was
		ready  bool
		plain  []byte
		gzip   []byte
	}
}

// file is a file of the page.
type file struct {
	kind string // Content-Type
	body []byte
	etag string
}

// loadFiles returns the files of the page by their names, and a text that names their
// contents. It panics if the binary contains none, which no input can cause.
func loadFiles() (all map[string]file, build string) {
	kinds := map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	all = map[string]file{}
	sums := sha256.New()
	err := fs.WalkDir(pageFiles, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := pageFiles.ReadFile(name)
		sum := sha256.Sum256(body)
		_, _ = sums.Write(sum[:]) // a hash takes everything
		all[d.Name()] = file{kind: kinds[path.Ext(name)], body: body, etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		return err //nolint:wrapcheck // never returned
	})
	if err != nil {
		panic(err)
	}
	return all, base64.RawURLEncoding.EncodeToString(sums.Sum(nil)[:12])
}

// policy is the Content-Security-Policy: the page's own files and data, nothing inline,
// no HTML from strings, and no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP answers by the last element of the path, so that the handler works below any
// prefix.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Frame-Options", "DENY")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // tests have connections without
	if !h.knows(r.Host) {
		http.Error(w, "ui: this server does not serve that host name", http.StatusMisdirectedRequest)
		return
	}
	_, name := path.Split(r.URL.Path)
	switch name {
	case "state":
		h.read(w, r, h.state)
	case "events":
		h.read(w, r, h.events)
	case "lock":
		h.read(w, r, h.lock)
	case "evict":
		h.act(w, r, h.evict)
	case "ask":
		h.act(w, r, h.ask)
	case "withdraw":
		h.act(w, r, h.withdraw)
	default:
		h.read(w, r, h.static)
	}
}

// knows reports whether a Host header is one of Options.Hosts.
func (h *handler) knows(host string) bool {
	if len(h.Hosts) == 0 && !h.AllowEvict || slices.Contains(h.Hosts, AnyHost) {
		return true
	}
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.Trim(strings.TrimSuffix(name, "."), "[]")
	if len(h.Hosts) == 0 {
		return strings.EqualFold(name, "localhost") || net.ParseIP(name) != nil
	}
	return slices.ContainsFunc(h.Hosts, func(known string) bool { return strings.EqualFold(known, name) })
}

// read answers a request that changes nothing.
func (h *handler) read(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "ui: this is read with GET", http.StatusMethodNotAllowed)
		return
	}
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // or the server would wait for the body before the answer
	}
	answer(w, r)
}

// static serves the files of the page.
func (h *handler) static(w http.ResponseWriter, r *http.Request) {
	_, name := path.Split(r.URL.Path)
	if name == "" {
		name = "index.html"
	}
	f, ok := h.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Etag", f.etag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.body))
}

// state serves all that the reader has seen, compressed once for all pages.
func (h *handler) state(w http.ResponseWriter, r *http.Request) {
	plain, packed, err := h.pack()
	if err != nil {
		http.Error(w, "ui: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		plain = packed
	}
	for part := range slices.Chunk(plain, statePart) {
		_ = h.allow(w) // where it cannot be set, the server's own counts
		_, err = w.Write(part)
		if err != nil {
			return // a client that has gone needs no answer
		}
	}
}

// pack returns the state as JSON, and the same compressed.
func (h *handler) pack() (plain, packed []byte, err error) {
	h.packed.Lock()
	defer h.packed.Unlock()
	seq, closed := h.reader.current()
	if h.packed.ready && h.packed.seq == seq && h.packed.closed == closed {
		return h.packed.plain, h.packed.gzip, nil
	}
	all := wholeState{Interval: h.Interval.Milliseconds(), Service: h.title(), Command: h.Command, Prefix: h.Prefix, Evict: h.AllowEvict}
	if h.AllowEvict && h.Token == "" {
		all.Token = h.csrf
	}
	seq, closed, plain, err = h.reader.whole(&all)
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(plain)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // a buffer takes everything
	}
	h.packed.seq, h.packed.closed, h.packed.plain, h.packed.gzip, h.packed.ready = seq, closed, plain, b.Bytes(), true
	return plain, h.packed.gzip, nil
}

package both

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

// Secret is a password that must not be found anywhere.
type Secret struct {
	forms []string

	mu     sync.Mutex
	events []session.Event
}

// NewSecret also looks for the forms in which bytes are printed.
func NewSecret(password string) *Secret {
	list := func(format, sep string) string {
		var b []string
		for _, c := range []byte(password) {
			b = append(b, fmt.Sprintf(format, c))
		}
		return strings.Join(b, sep)
	}
	s := &Secret{forms: []string{
		password, hex.EncodeToString([]byte(password)), strings.ToUpper(hex.EncodeToString([]byte(password))),
		list("%d", " "), list("%d", ","), list("0x%x", ", "), list("%#x", ","),
	}}
	// In base64 the bytes before the password shift it: by none, one or two bytes.
	for before := range 3 {
		text := base64.StdEncoding.EncodeToString(append(make([]byte, before), password...))
		s.forms = append(s.forms, text[4:len(text)-4])
	}
	return s
}

// in returns the form in which the password is in a text; "" if it is not.
func (s *Secret) in(text string) string {
	for _, f := range s.forms {
		if strings.Contains(text, f) {
			return f
		}
	}
	return ""
}

// Kept fails the test if a value shows the password when it is printed, logged, or encoded
// as JSON.
func (s *Secret) Kept(t testing.TB, what string, value any) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		text := fmt.Sprintf(verb, value)
		assert.Empty(t, s.in(text), "%s, printed with %s: %.300s", what, verb, text)
	}
	if text, err := json.Marshal(value); err == nil {
		assert.Empty(t, s.in(string(text)), "%s, as JSON: %.300s", what, text)
	}
	var b bytes.Buffer
	o := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, o), slog.NewJSONHandler(&b, o)} {
		slog.New(h).Debug("secret", "value", value)
	}
	assert.Empty(t, s.in(b.String()), "%s, logged: %.300s", what, b.String())
}

// Nowhere fails the test if the password is in any field of a value, exported or
// not, however deep.
func (s *Secret) Nowhere(t testing.TB, what string, value any) {
	t.Helper()
	s.Kept(t, what, value)
	s.walk(t, what, reflect.ValueOf(value), map[uintptr]bool{})
}

func (s *Secret) walk(t testing.TB, what string, v reflect.Value, seen map[uintptr]bool) {
	switch v.Kind() {
	case reflect.String:
		assert.Empty(t, s.in(v.String()), what)
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Pointer()] {
			seen[v.Pointer()] = true
			s.walk(t, what, v.Elem(), seen)
		}
	case reflect.Interface:
		if !v.IsNil() {
			s.walk(t, what+".("+v.Elem().Type().String()+")", v.Elem(), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			s.walk(t, what+"."+v.Type().Field(i).Name, v.Field(i), seen)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			assert.Empty(t, s.in(string(v.Bytes())), what)
			return
		}
		for i := range v.Len() {
			s.walk(t, fmt.Sprint(what, "[", i, "]"), v.Index(i), seen)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			s.walk(t, what+" key", k, seen)
			s.walk(t, fmt.Sprint(what, "[", k, "]"), v.MapIndex(k), seen)
		}
	default:
	}
}

// Hooks returns hooks that keep all events.
func (s *Secret) Hooks() session.Hooks {
	keep := func(ev session.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, ev)
	}
	keepEvent := func(_ context.Context, ev session.Event) { keep(ev) }
	return session.Hooks{
		Started: func(ctx context.Context, ev session.Event) context.Context {
			keep(ev)
			return ctx
		},
		Joined: keepEvent, Position: keepEvent, Rejoined: keepEvent, Ended: keepEvent, Lost: keepEvent, Released: keepEvent,
		SessionOpened: keep, SessionRenewed: keep, SessionLost: keep, SessionClosed: keep,
	}
}

// Events returns the events of the hooks.
func (s *Secret) Events() []session.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]session.Event(nil), s.events...)
}

// Logins is what the case of passwords needs of a service with users.
type Logins struct {
	Proxy     *testnet.Proxy // a way to the server
	Server    string         // the server, past the proxy
	Good, Bad string         // the password of a user, and another

	// Open opens a session with a password, in 5 s. It also returns what a program may
	// print of its configuration.
	Open func(t testing.TB, server, password string, ttl time.Duration, hooks session.Hooks) (c *recipetest.Client, config []any, err error)

	// Denied returns a session of the user, and the name of a lock that it may not use.
	Denied func(t testing.TB) (c *recipetest.Client, name string)

	// Stored returns all data of the server, and Generated the passwords that sessions have
	// generated for themselves.
	Stored    func(t testing.TB) []any
	Generated func(t testing.TB) []string
}

// passwordsNeverShown makes all kinds of calls with logins, and then searches for the
// passwords in all errors, logs, printed values and stored data.
func passwordsNeverShown(t *testing.T, s Service) {
	l := s.Logins(t)
	good := NewSecret(l.Good)
	secrets := map[string]*Secret{"good": good, "bad": NewSecret(l.Bad)}
	e := &evidence{errs: map[string]error{}}
	ttl := recipetest.CalmTTL
	open := func(what, server, password string) *recipetest.Client {
		c, config, err := l.Open(t, server, password, ttl, good.Hooks())
		e.clients, e.printed, e.errs[what] = append(e.clients, c), append(e.printed, config...), err
		return c
	}

	wrong := open("wrong password", l.Server, l.Bad)
	if e.errs["wrong password"] == nil { // it is that of a user without permissions
		e.errs["wrong password"] = failed(mutex.New(wrong.Session, "x").Lock(recipetest.Bounded(t)))
	}
	require.ErrorIs(t, e.errs["wrong password"], session.ErrDenied)
	open("unreachable", ClosedAddr(t), l.Good)
	l.Proxy.Hold(fault.Both)
	open("cut", l.Proxy.Addr(), l.Good)
	require.ErrorIs(t, e.errs["cut"], session.ErrUnavailable)
	l.Proxy.Heal(fault.Both)

	one, two := open("one", l.Proxy.Addr(), l.Good), open("two", l.Server, l.Good)
	require.NoError(t, e.errs["one"])
	require.NoError(t, e.errs["two"])
	denied, name := l.Denied(t)
	e.clients = append(e.clients, denied)
	for what, err := range Calls(recipetest.Bounded(t), denied.Session, name) {
		e.errs["denied "+what] = err
	}
	require.ErrorIs(t, e.errs["denied lock"], session.ErrDenied)
	for what, err := range Calls(recipetest.Bounded(t), two.Session, "../secret") {
		e.errs["called "+what] = err
	}
	Use(t, one, two, "more/")
	ttl = 5 * time.Second // this one is to be lost
	lost := open("to be lost", l.Proxy.Addr(), l.Good)
	require.NoError(t, e.errs["to be lost"])
	h := lost.Lock(t, "x")
	r := two.Begin(recipetest.Bounded(t), "x")
	entries := two.Queued(t, "x", 2)
	l.Proxy.Reset() // the next connection sends the logins again
	recipetest.Until(t, "another connection", func() bool { return l.Proxy.Stats().Open > 0 })
	l.Proxy.Hold(fault.Both)
	recipetest.Wait(t, h.Context().Done(), "the loss")
	e.errs["lost"], e.errs["unlock"] = context.Cause(h.Context()), h.Unlock()
	l.Proxy.Heal(fault.Both)
	h2 := r.Granted(t)
	stored := l.Stored(t)
	require.NotEmpty(t, stored)
	recipetest.Unlock(t, h2)
	for _, c := range e.clients { // fmt takes no lock
		if c.Session != nil {
			assert.NoError(t, c.Close())
		}
	}
	require.NotEmpty(t, good.Events())
	e.printed = append(e.printed, h2)
	e.walked = map[string]any{"entries": entries, "hooks": good.Events(), "store": stored}

	for i, password := range l.Generated(t) {
		secrets[fmt.Sprint("generated ", i)] = NewSecret(password)
	}
	for name, s := range secrets {
		e.keeps(t, name, s)
	}
}

// evidence is everything that a password could be in.
type evidence struct {
	errs    map[string]error
	clients []*recipetest.Client
	printed []any
	walked  map[string]any
}

// keeps fails the test if it finds a secret.
func (e *evidence) keeps(t testing.TB, name string, s *Secret) {
	t.Helper()
	for what, err := range e.errs {
		s.Kept(t, name+", error of "+what, err)
	}
	for _, c := range e.clients {
		s.Nowhere(t, name+", log", c.Log.String())
		s.Kept(t, name+", session", c.Session)
	}
	for _, v := range e.printed {
		s.Kept(t, fmt.Sprintf("%s, %T", name, v), v)
	}
	for what, v := range e.walked {
		s.Nowhere(t, name+", "+what, v)
	}
}

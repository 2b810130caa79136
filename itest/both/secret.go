package both

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session"
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
	// In base64 what stands before it moves it: by none, one or two bytes.
	for before := range 3 {
		text := base64.StdEncoding.EncodeToString(append(make([]byte, before), password...))
		s.forms = append(s.forms, text[4:len(text)-4])
	}
	return s
}

// in says in which form the password is in a text; "" if it is not.
func (s *Secret) in(text string) string {
	for _, f := range s.forms {
		if strings.Contains(text, f) {
			return f
		}
	}
	return ""
}

// Kept fails the test if a value tells the password to who prints it, logs it, or
// encodes it as JSON.
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

// Hooks keep all that hooks are told.
func (s *Secret) Hooks() session.Hooks {
	note := func(ev session.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, ev)
	}
	return session.Hooks{
		Joined: note, Position: note, Granted: note, Lost: note, Released: note, Rejoined: note,
		Renewed: note, SessionOpened: note, SessionLost: note,
	}
}

// Told is what hooks were told.
func (s *Secret) Told() []session.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]session.Event(nil), s.events...)
}

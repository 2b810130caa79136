package redisfence

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// Script returns a Lua script that checks a token and then runs body, as one step. Its keys come
// from Keys and its arguments from Args; body finds its own in KEYS[1], ARGV[1] and so on, as if
// it ran alone. If the token is outbid, body does not run, and the reply is an error that Err
// reads. The token counts as seen even if body fails. An empty body makes a script that only
// checks.
func Script(body string) string { return check + body }

// Keys returns the keys of a Script: the mark of key, key, and more. In a cluster, more must be in
// the slot of key.
func Keys(key string, more ...string) []string {
	return append([]string{Mark(key), key}, more...)
}

// Args returns the arguments of a Script: the token and mode of a hold, and those of its body.
func Args(t session.Token, mode session.Mode, args ...string) []string {
	return append([]string{t.String(), string(mode)}, args...)
}

// Mark returns the key of the marks for the data at key. A cluster has both in one slot: a key
// with a hash tag keeps that tag, and another key becomes one. A key that has a closing brace
// but no hash tag, such as "a}b" or "{}a", has no such neighbor: a cluster refuses the script.
func Mark(key string) string {
	_, after, opens := strings.Cut(key, "{")
	if opens {
		end := strings.IndexByte(after, '}')
		if end > 0 {
			return key + ":fairlock"
		}
	}
	return "{" + key + "}:fairlock"
}

// staleReply is the text of a refusal. Clients may put something before or after it.
var staleReply = regexp.MustCompile(`FAIRLOCKSTALE (exclusive|shared|weighted) ([0-9]+) ([0-9]+)`)

// Err reads the error of a Script. For a refused token it returns an error with a
// *fence.StaleError, which is fence.ErrStale, and err; any other error it returns as it is.
func Err(err error) error {
	if err == nil {
		return nil
	}
	found := staleReply.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	token, err1 := session.ParseToken(found[2])
	seen, err2 := session.ParseToken(found[3])
	if err1 != nil || err2 != nil {
		return err
	}
	return &refused{&fence.StaleError{Token: token, Mode: session.Mode(found[1]), Seen: seen}, err}
}

// refused has the text of the first error, and both are in its chain.
type refused struct {
	stale *fence.StaleError
	reply error
}

func (e *refused) Error() string   { return e.stale.Error() }
func (e *refused) Unwrap() []error { return []error{e.stale, e.reply} }

// Eval runs a script at the server and returns the error of its reply: a line of code for the
// client of the program. With rueidis:
//
//	func(ctx context.Context, script string, keys, args []string) error {
//		return client.Do(ctx, client.B().Eval().Script(script).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).Error()
//	}
//
// With go-redis, whose Nil is no error here:
//
//	func(ctx context.Context, script string, keys, args []string) error {
//		err := client.Eval(ctx, script, keys, args).Err()
//		if err == redis.Nil {
//			return nil
//		}
//		return err
//	}
type Eval func(ctx context.Context, script string, keys, args []string) error

// Touch records a token for a resource in one step with its check. It implements httpfence.Marks
// for a server whose marks are in Redis. Touch is a check alone: an access that follows it can
// come after a newer one, unless the caller lets no other access in between.
func (e Eval) Touch(ctx context.Context, resource string, t session.Token, mode session.Mode) error {
	err := Err(e(ctx, Script("return 1"), []string{Mark(resource)}, Args(t, mode)))
	if err != nil {
		return fmt.Errorf("redisfence: resource %q: %w", resource, err)
	}
	return nil
}

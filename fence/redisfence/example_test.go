package redisfence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/redisfence"
	"github.com/fairlock/fairlock/session"
)

// A balance is read and written by scripts of the program, each of which checks the token first.
func ExampleScript() {
	withdraw := redisfence.Script(`
		local left = (tonumber(redis.call('GET', KEYS[1])) or 0) - tonumber(ARGV[1])
		redis.call('SET', KEYS[1], left)
		return left`)
	token, mode := session.Token(42), session.Exclusive // h.Token(), h.Mode()

	keys := redisfence.Keys("account:ada")
	args := redisfence.Args(token, mode, "30")
	fmt.Println(strings.HasSuffix(withdraw, "return left"), keys, args)
	// reply := client.Do(ctx, client.B().Eval().Script(withdraw).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	err := redisfence.Err(errors.New("FAIRLOCKSTALE exclusive 42 43")) // reply.Error()
	fmt.Println(errors.Is(err, fence.ErrStale), err)
	// Output:
	// true [{account:ada}:fairlock account:ada] [42 exclusive 30]
	// true fence: stale token: exclusive token 42 refused: token 43 was seen
}

// The marks of an HTTP server can be in Redis. Here a function stands for a client.
func ExampleEval() {
	marks := redisfence.Eval(func(_ context.Context, _ string, keys, args []string) error {
		fmt.Println(keys, args)
		return errors.New("FAIRLOCKSTALE exclusive 42 43")
	})

	fmt.Println(marks.Touch(context.Background(), "account/ada", 42, session.Exclusive))
	// Output:
	// [{account/ada}:fairlock] [42 exclusive]
	// redisfence: resource "account/ada": fence: stale token: exclusive token 42 refused: token 43 was seen
}

// Worker runs contestants of bench in a process of its own. "bench -old" builds it twice, with
// the present fairlock and with an earlier commit, and drives both programs in one run. It has
// no other use.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/etcdstand"
	"github.com/fairlock/fairlock/bench/memstand"
	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/bench/zkstand"
)

func main() {
	// An interrupt at the terminal reaches this process as well. It ends when its input
	// ends, which the program that drives it closes.
	signal.Ignore(os.Interrupt)
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("it is started by bench -old, with the name of a service and addresses")
	}
	for _, s := range append(append(postgres(), redis()...), etcdstand.Service(), zkstand.Service(), memstand.Service()) {
		if s.Name != args[0] {
			continue
		}
		var at stand.Addresses
		if err := json.Unmarshal([]byte(args[1]), &at); err != nil {
			return fmt.Errorf("addresses %q: %w", args[1], err)
		}
		on, err := s.Attach(ctx, at)
		if err != nil {
			return err
		}
		return errors.Join(drive.Serve(ctx, on, os.Stdin, os.Stdout), on.Close())
	}
	return fmt.Errorf("%q is no service", args[0])
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session"
)

const initHelp = `Make a root in Redis or Valkey, so that the first lock need not wait. Only Redis
has roots to be made: etcd and ZooKeeper need nothing, and PostgreSQL has
"fairlock schema".

Use it once, before any program has used the root. DO NOT use it after Redis has
lost its data: a program of before may still hold a lock. Then do nothing: the
programs wait until that is over, for the greatest TTL, and go on by themselves.
A root that is there stays as it is. Where a program waits already, so does this
command.

--max-ttl is the greatest --ttl that sessions may have, and also for how long no
lock is granted after a restart or a failover. --nodes is how many servers have
the data: 3 for a master with two replicas. A renewal counts only if a majority
of them has it. Both are kept in the root, and each program has to name the same
ones in its URL (max-ttl=, nodes=).

A user needs these rights to lock in the root fairlock, +wait only with
replicas, and in a cluster +ssubscribe, +sunsubscribe and +spublish instead:

  ~{fairlock}:* &{fairlock}:* +eval +evalsha +info +time +wait +subscribe
  +unsubscribe +publish +del +exists +expire +hdel +hexists +hget +hgetall
  +hkeys +hmget +hset +hsetnx +zadd +zcard +zcount +zmscore +zrange
  +zrangebylex +zrem +zscore

Exit codes: 0 done or there already, 69 Redis is unreachable or refuses it, 77
no right.`

func (a *app) initCommand() *cobra.Command {
	var maxTTL span
	var nodes int
	cmd := &cobra.Command{
		Use:   "init [URL]",
		Short: "Make a root in Redis",
		Long:  initHelp,
		Example: `  fairlock init redis://localhost                        # one server
  fairlock init --max-ttl 5s                             # with FAIRLOCK_ON
  fairlock init --nodes 3 'redis://s-1,s-2?master=locks' # behind sentinels`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("unexpected %q after the URL", args[1])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fs := cmd.Flags()
	fs.Var(&maxTTL, "max-ttl", "the greatest TTL of a session, `DURATION` (default that\nof the URL, or 15s)")
	fs.IntVar(&nodes, "nodes", 0, "how many servers have the data, `N` (default that of\nthe URL, or 1)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if a.conn.On != "" || a.conn.Context != "" {
				return errors.New("URL and --on or --context exclude each other")
			}
			a.conn.On = args[0]
		}
		t, err := a.conn.Target()
		switch {
		case err != nil:
			return err
		case t.Address.Service == address.Postgres:
			return fmt.Errorf(`%s names %s, which has tables: want "fairlock schema postgres --apply"`, t.From, t.Address)
		case t.Address.Service != address.Redis:
			return fmt.Errorf("%s names %s, which needs nothing: want a URL such as redis://localhost", t.From, t.Address)
		case nodes < 0 || cmd.Flags().Changed("nodes") && nodes == 0:
			return fmt.Errorf("--nodes %d: want how many servers have the data, the master included", nodes)
		}
		return a.makeRoot(cmd, t, maxTTL.d, nodes)
	}
	return cmd
}

// makeRoot makes a root.
func (a *app) makeRoot(cmd *cobra.Command, t *connect.Target, maxTTL time.Duration, nodes int) error {
	for _, w := range t.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "fairlock: warning: %s\n", w)
	}
	client, o, err := t.RedisConfig()
	if err != nil {
		return exit.Of(err)
	}
	if maxTTL != 0 {
		o.MaxTTL = maxTTL
	}
	if nodes != 0 {
		o.Nodes = nodes
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), t.Within())
	defer cancel()
	return during(cmd, "making the root in "+t.Address.String(), func() error {
		before, err := redisbackend.Examine(ctx, client, o)
		if err != nil && strings.Contains(err.Error(), "invalid options: ") {
			_, why, _ := strings.Cut(err.Error(), "invalid options: ")
			return errors.New(strings.Replace(strings.Replace(why, "MaxTTL ", "--max-ttl ", 1), "Root ", "root= ", 1))
		}
		if before.Claimed && before.Stored == "" {
			return a.waitForRoot(cmd, t, before) //nolint:contextcheck // closing bounds itself
		}
		if err := redisbackend.Init(ctx, client, o); err != nil {
			return exit.Of(t.ExplainRedis(ctx, err))
		}
		r, err := redisbackend.Examine(ctx, client, o)
		if err != nil {
			return exit.Of(t.ExplainRedis(ctx, err))
		}
		w := cmd.ErrOrStderr()
		made := "is made"
		if before.Stored != "" {
			made = "is there"
		}
		fmt.Fprintf(w, "%s: root %q %s; the greatest TTL is %s, and %s\n", t.Address, r.Root, made, r.MaxTTL, servers(r.Nodes))
		named := parametersOf(r)
		if named != parametersOf(redisbackend.Report{MaxTTL: t.Address.MaxTTL, Nodes: t.Address.Nodes}) {
			fmt.Fprintf(w, "Each program has to have this in its URL: %s\n", named)
		}
		if r.Life != r.Stored && r.Stored != "" {
			fmt.Fprintf(w, "Redis has restarted or failed over since: the first program that locks waits for %s.\n", r.MaxTTL-r.Counted)
		}
		return nil
	})
}

// waitForRoot takes part in the quarantine of a root that other programs wait for, or have begun to.
func (a *app) waitForRoot(cmd *cobra.Command, t *connect.Target, r redisbackend.Report) error {
	client, o, err := t.RedisConfig()
	if err != nil {
		return exit.Of(err)
	}
	o.MaxTTL, o.Nodes, o.Session.TTL = r.MaxTTL, r.Nodes, 0
	if r.MaxTTL < session.DefaultTTL {
		o.Session.TTL = r.MaxTTL
	}
	o.Session.Logger = slog.New(slog.DiscardHandler)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: a program has begun to use root %q, and another one may still hold a lock there: waiting for up to %s\n",
		t.Address, r.Root, (r.MaxTTL - r.Counted).Round(time.Second))
	ctx, cancel := context.WithTimeout(cmd.Context(), r.MaxTTL+t.Within())
	defer cancel()
	s, err := redisbackend.Open(ctx, client, o)
	if err != nil {
		return exit.Of(t.ExplainRedis(ctx, err))
	}
	closeQuickly(s)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: root %q is made; the greatest TTL is %s, and %s\n", t.Address, r.Root, r.MaxTTL, servers(r.Nodes))
	return nil
}

// parametersOf returns the parameters that a URL needs for a root, "" for none.
func parametersOf(r redisbackend.Report) string {
	var all []string
	if r.MaxTTL != 0 && r.MaxTTL != redisbackend.DefaultMaxTTL {
		all = append(all, "max-ttl="+r.MaxTTL.String())
	}
	if r.Nodes > 1 {
		all = append(all, fmt.Sprint("nodes=", r.Nodes))
	}
	return strings.Join(all, "&")
}

func servers(n int) string {
	if n == 1 {
		return "one server has the data"
	}
	return fmt.Sprintf("%d servers have the data", n)
}

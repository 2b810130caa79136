package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

// RedisConfig returns how Open connects to Redis, and its options.
func (t *Target) RedisConfig() (rueidis.ClientOption, *redisbackend.Options, error) {
	client, o, err := stores.RedisConfig(t.url, &t.Options)
	if err != nil {
		return client, nil, &reworded{t.From + ": " + strings.TrimPrefix(err.Error(), "stores: "), err}
	}
	return client, o, nil
}

// mayRead is what the error of redisbackend contains for a login that may read, and not lock.
const mayRead = ": the login may read, and not lock: "

// RightsHelp names the place of the rights that a login needs.
const RightsHelp = `"fairlock init --help" has the rights that are needed`

// ExplainRedis is explain for an error of Redis, which reports itself what is wrong.
func (t *Target) ExplainRedis(ctx context.Context, err error) error {
	server, answered := errors.AsType[*rueidis.RedisError](err)
	_, why, refused := strings.Cut(err.Error(), session.ErrRefused.Error()+": ")
	_, lacks, denied := strings.Cut(err.Error(), session.ErrDenied.Error()+": the login ")
	switch {
	case errors.Is(err, session.ErrUnavailable):
		return &reworded{t.redisReasons(ctx, err), err}
	case denied: // found out by redisbackend
		return &reworded{fmt.Sprintf("%s: the login %s: %s", t.Address, lacks, RightsHelp), err}
	case answered && strings.HasPrefix(server.Error(), "NOPERM"):
		return &reworded{fmt.Sprintf("%s: %s: %s", t.Address, strings.TrimPrefix(server.Error(), "NOPERM "), RightsHelp), err}
	case answered && strings.HasPrefix(server.Error(), "NOAUTH"):
		return &reworded{fmt.Sprintf("%s needs a login: want --user and --password-file, or --password-file alone for the user default", t.Address), err}
	case errors.Is(err, session.ErrDenied) && answered:
		return &reworded{fmt.Sprintf("%s refuses the login as %q: check --user and --password-file, or the login in %s", t.Address, t.redisUser(), t.From), err}
	case answered && strings.Contains(server.Error(), "unknown command 'SENTINEL'"):
		return &reworded{fmt.Sprintf("what answers at %s is no sentinel: check the port in %s, or leave out master=", strings.Join(t.Address.Hosts, ", "), t.From), err}
	case answered && strings.Contains(server.Error(), "unknown command"):
		return &reworded{fmt.Sprintf("%s: %s: check the port in %s; a sentinel wants master=NAME", t.Address, server.Error(), t.From), err}
	case refused:
		return &reworded{fmt.Sprintf("%s: %s", t.Address, RedisWords(why)), err}
	}
	return &reworded{t.From + ": " + strings.TrimPrefix(err.Error(), "stores: open: "), err}
}

// RedisWords returns what redisbackend has found wrong, with the parameters of a URL for its options.
func RedisWords(why string) string {
	return strings.NewReplacer(
		"all programs of a root need the same MaxTTL", "name that of the root in the URL (max-ttl=)",
		"all programs of a root need the same Nodes", "name that of the root in the URL (nodes=)",
		"or another MaxTTL for all programs of the root", "or a greater max-ttl= for all programs of the root",
		"set Nodes to the number", "set nodes= to the number",
		"and Nodes is ", "and nodes= is ",
		"or AcceptWeaker", "or accept that with weaker=true",
	).Replace(why)
}

func (t *Target) redisUser() string {
	client, _, err := t.RedisConfig()
	if err != nil {
		return ""
	}
	return client.Username
}

// The reasons of Redis only.
const (
	replica = "it is a replica"
	starts  = "it loads its data"
)

// redisReasons returns why no server could be used. If the master answers, err has the reason.
func (t *Target) redisReasons(ctx context.Context, err error) string {
	ctx, cancel := context.WithTimeout(ctx, 2*probeTimeout)
	defer cancel()
	client, o, config := t.RedisConfig()
	if config != nil {
		return config.Error()
	}
	r, examined := redisbackend.Examine(ctx, client, o)
	if r.Master != "" && (examined == nil || ctx.Err() != nil) {
		if r.Claimed && r.Stored == "" {
			return fmt.Sprintf(`%s: root %q is new, or its data was lost, and grants nothing for another %s: "fairlock init" waits for that`,
				t.Address, r.Root, max(0, r.MaxTTL-r.Counted).Round(time.Second))
		}
		return fmt.Sprintf("%s: %s", t.Address, withoutLayers(err))
	}
	var hosts, reasons []string
	for _, s := range r.Sentinels {
		reason := s.Err
		if reason == "" {
			reason = fmt.Sprintf("it names the master %s, which cannot be used", s.Master)
		}
		hosts, reasons = append(hosts, s.Addr), append(reasons, t.reasonOf(reason))
	}
	for _, s := range r.Servers {
		reason := s.Err
		switch {
		case reason == "" && s.Replica:
			reason = replica
		case strings.HasPrefix(reason, "LOADING"):
			reason = starts
		case reason == "":
			reason = "it cannot be used"
		}
		hosts, reasons = append(hosts, s.Addr), append(reasons, t.reasonOf(reason))
	}
	check := t.From + ", the network, and whether the servers run"
	switch {
	case len(hosts) == 0:
		hosts, reasons = t.Address.Hosts, []string{silent}
	case slices.Contains(reasons, replica):
		check = "whether " + t.From + " names the master"
	case slices.Contains(reasons, starts):
		check = "again in a moment"
	}
	if !t.secure() && slices.ContainsFunc(reasons, func(r string) bool { return r == closes || r == silent }) {
		check += ", and whether TLS is wanted there (" + t.Address.Service + "s://)"
	}
	return fmt.Sprintf("cannot reach %s within %s: %s: check %s", t.Address, t.Within(), join(hosts, reasons), check)
}

// reasonOf returns a reason in the words of this package.
func (t *Target) reasonOf(text string) string {
	switch {
	case strings.Contains(text, "refused"):
		return refused
	case strings.Contains(text, "no such host"):
		return noHost
	case text == "no answer":
		return silent
	case strings.HasSuffix(text, "EOF"), strings.Contains(text, "reset by peer"):
		return closes
	}
	return text
}

package onredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/robustness/trial"
)

// What an operator does and sees, as scripts. KEYS[1] is what begins all keys.
const (
	// entriesScript returns the entries of a queue, each as session.place, behind whether the data is
	// blessed in the life of this server.
	entriesScript = `
local P, q = KEYS[1], ARGV[1]
local life = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local out = {redis.call('HGET', P .. 'meta', 'life') == life and '1' or '0'}
for _, place in ipairs(redis.call('ZRANGE', P .. 'q:' .. q, 0, -1)) do
  local header = redis.call('HGET', P .. 'h:' .. q, place) or '?'
  out[#out + 1] = string.match(header, '^%S+') .. '.' .. place
end
return out`

	// endScript deletes entries of a session, all if the place is '', and then the session too. It
	// tells the watchers, as a client does that ends a session. ARGV: session, place, command.
	endScript = `
local P, session, only, publish = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local k = P .. 's:' .. session
for _, owned in ipairs(redis.call('HKEYS', k)) do
  local place, q = string.match(owned, '^e(%d+):(.*)$')
  if place and (only == '' or only == place) then
    local watchers = redis.call('HGET', P .. 'h:' .. q, place .. 'w') or ''
    redis.call('ZREM', P .. 'q:' .. q, place)
    redis.call('HDEL', P .. 'h:' .. q, place, place .. 'd', place .. 'x', place .. 'w')
    redis.call('HDEL', k, owned)
    if redis.call('EXISTS', P .. 'q:' .. q) == 0 then redis.call('ZREM', P .. 'names', q) end
    local what = 'g0:2:' .. place .. ':' .. q
    redis.call(publish, P .. 'c::' .. q, what)
    redis.call(publish, P .. 'c:' .. session, what)
    for watcher in string.gmatch(watchers, '%S+') do redis.call(publish, P .. 'c:' .. watcher, what) end
  end
end
if only == '' then
  redis.call('DEL', k)
  redis.call('ZREM', P .. 'ses', session)
end
return 1`

	// remainsScript returns what is left of sessions other than those in ARGV.
	remainsScript = `
local P = KEYS[1]
local open = {}
for _, id in ipairs(ARGV) do open[id] = true end
local out = {}
local function left(what) out[#out + 1] = what end
for _, key in ipairs(redis.call('KEYS', P .. '*')) do
  local name = string.sub(key, #P + 1)
  local kind, rest = string.match(name, '^(%a+):?(.*)$')
  if kind == 'meta' then
  elseif kind == 's' then
    if not open[rest] then left('session ' .. rest) end
  elseif kind == 'ses' then
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      if not open[id] then left('member ' .. id) end
    end
  elseif kind == 'names' then
    for _, q in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      if redis.call('EXISTS', P .. 'q:' .. q) == 0 then left('name ' .. q) end
    end
  elseif kind == 'q' then
    for _, place in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      local session = string.match(redis.call('HGET', P .. 'h:' .. rest, place) or '', '^%S+')
      if not open[session or ''] then left('entry ' .. place .. ' of ' .. rest) end
    end
  elseif kind == 'h' then
    if redis.call('EXISTS', P .. 'q:' .. rest) == 0 then left(name) end
  elseif kind == 'r' then
    local all = redis.call('HGETALL', key)
    for i = 2, #all, 2 do
      local session = string.match(all[i], '^%d+:([^:]*):')
      if session ~= '' and not open[session] then left('record ' .. all[i - 1] .. ' of ' .. rest) end
    end
  else
    left(name)
  end
end
return out`
)

// eval runs a script on a server.
func eval(ctx context.Context, c rueidis.Client, script string, args ...string) rueidis.RedisResult {
	return c.Do(ctx, c.B().Eval().Script(script).Numkeys(1).Key(prefix).Arg(args...).Build())
}

// publish is the command for notices.
func (s *Service) publish() string {
	if s.cluster != nil {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

func (s *Service) end(ctx context.Context, session, place string) error {
	return s.do(ctx, func(ctx context.Context, c rueidis.Client) error {
		return eval(ctx, c, endScript, session, place, s.publish()).Error()
	})
}

// EndSession implements trial.Service: an operator deletes the session. Of a peer it deletes the key.
func (s *Service) EndSession(ctx context.Context, id string) error {
	if strings.Contains(id, ":") {
		return s.endPeer(ctx, id)
	}
	return s.end(ctx, id, "")
}

// Delete implements trial.Service.
func (s *Service) Delete(ctx context.Context, entry string) error {
	if strings.Contains(entry, ":") {
		return s.endPeer(ctx, entry)
	}
	session, place, _ := strings.Cut(entry, ".")
	if _, err := strconv.ParseInt(place, 10, 64); err != nil {
		return fmt.Errorf("onredis: entry %q: %w", entry, err)
	}
	return s.end(ctx, session, place)
}

// Entries implements trial.Service.
func (s *Service) Entries(ctx context.Context, lock, queue string) (all []string, err error) {
	if lock != trial.Ours {
		return s.peerEntries(ctx, lock, queue)
	}
	err = s.do(ctx, func(ctx context.Context, c rueidis.Client) error {
		all, err = eval(ctx, c, entriesScript, queue).AsStrSlice()
		return err
	})
	if err != nil {
		return nil, err
	}
	return all[1:], nil
}

// Remains implements trial.Breaker.
func (s *Service) Remains(ctx context.Context) (all []string, err error) {
	s.mu.Lock()
	var open []string
	for id := range s.open {
		open = append(open, id)
	}
	s.mu.Unlock()
	err = s.do(ctx, func(ctx context.Context, c rueidis.Client) error {
		all, err = eval(ctx, c, remainsScript, open...).AsStrSlice()
		return err
	})
	return all, err
}

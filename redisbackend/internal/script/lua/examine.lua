-- What the server, the root and the login are, after a step of a quarantine. ARGV: the step and what it takes:
--   look
--   claim, life of the server, claim that is stored, claim to be stored, greatest TTL, nodes, greatest number
--   count, life of the server, claim that is stored, what was counted for it, what is added, in ms, greatest number
-- The greatest number is the one that the program has seen in a life before; 0 for none.
local step, life, claim = nx(), nx(), nx()
local meta = call('HMGET', P .. 'meta', 'life', 'claim', 'sum', 'last')
local wrote = 0
if step ~= 'look' and life == server and meta[1] ~= server and claim == (meta[2] or '') then
  if step == 'claim' then
    local new = nx()
    if new ~= claim then call('HSET', P .. 'meta', 'sum', '0') end
    call('HSET', P .. 'meta', 'claim', new)
    call('HSETNX', P .. 'meta', 'max', nx())
    call('HSETNX', P .. 'meta', 'nodes', nx())
    wrote = 1
  elseif nx() == (meta[3] or '0') then
    call('HSET', P .. 'meta', 'sum', text(tonumber(meta[3] or '0') + num()))
    wrote = 1
  end
  local seen = tonumber(ARGV[#ARGV])
  if seen > (tonumber(meta[4]) or 0) then call('HSET', P .. 'meta', 'last', text(seen)) end
end
meta = call('HMGET', P .. 'meta', 'layout', 'life', 'claim', 'sum', 'max', 'nodes', 'since')
local about = call('INFO', 'memory') .. call('INFO', 'server')
return {'OK', server, wrote, meta[1] or '', meta[2] or '', meta[3] or '', meta[4] or '0', meta[5] or '0', meta[6] or '0',
  string.match(about, 'maxmemory_policy:(%S+)') or '', string.match(info, 'connected_slaves:(%d+)') or '0',
  string.match(about, 'redis_mode:(%S+)') or string.match(about, 'server_mode:(%S+)') or '',
  string.match(about, 'redis_version:(%S+)') or '', lacks, lackstowrite, meta[7] or '0'}

-- ARGV: how many requests, and of each: queue, mode, weight, valued, data, whether it has a detail, the
-- detail, only if empty, how many entries ahead to return, whether the name is listed, ops, how many
-- records, their names. The session watches its own entries, and the one nearest ahead of each, from now on.
local requests = {}
for i = 1, num() do
  local r = {q = nx(), mode = nx(), weight = nx(), valued = nx(), data = nx(), detailed = nx() == '1', detail = nx(),
    empty = nx() == '1', nearest = num(), listed = nx() == '1', ops = ops()}
  local n = num()
  r.names, at = at, at + n
  r.n = n
  requests[i] = r
  r.count = call('ZCARD', kq(r.q))
  if r.empty and r.count > 0 then return keep({'TAKEN', i, r.count, range(r.q, 0, 0, true)}) end
  local refused, raw
  r.results, refused, raw = conditions(r.q, r.ops)
  if not r.results then return keep({'REFUSED', i, refused, raw}) end
end
local place = tick()
local out = {}
local owned = {}
for i, r in ipairs(requests) do
  local ahead, watchers = range(r.q, math.max(0, r.count - r.nearest), r.count - 1, false, true)
  call('ZADD', kq(r.q), place, place)
  local header = session .. ' ' .. r.mode .. ' ' .. r.weight .. ' ' .. r.valued .. ' 0 0'
  local fields = {place, header, place .. 'd', r.data}
  if r.detailed then fields[5], fields[6] = place .. 'x', r.detail end
  local near = ahead[#ahead]
  local list = near and watching(near[2], watchers, session)
  if list then fields[#fields + 1], fields[#fields + 2] = near[1] .. 'w', list end
  call('HSET', kh(r.q), unpack(fields))
  owned[#owned + 1] = 'e' .. place .. ':' .. r.q
  owned[#owned + 1] = ''
  if r.count == 0 and r.listed then call('ZADD', P .. 'names', 0, r.q) end
  operate(r.q, r.ops, r.results)
  tell(r.q, 'e')
  at = r.names
  out[i] = {r.count, ahead, r.results, records(r.q, r.n)}
end
local reply = {'OK', place, out}
call('HSET', ks(session), '.' .. slot, numeral .. ':' .. cmsgpack.pack(reply), unpack(owned))
return reply

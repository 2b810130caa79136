-- Makes sure that nothing is left of a join, and that none of its attempts is carried out any more.
-- ARGV: session, slot, number, how many queues, and of each: queue, how many records, their names.
local session, slot, number = nx(), nx(), num()
local own = call('HMGET', ks(session), 'a', '.' .. slot)
if not own[1] then return {'OVER'} end
local place
if own[2] then
  local colon = string.find(own[2], ':', 1, true)
  local n, reply = tonumber(string.sub(own[2], 1, colon - 1)), string.sub(own[2], colon + 1)
  if n > number then return {'OK'} end -- a settle before this one was answered, and the slot is used again
  if n == number and reply ~= '' then
    local r = cmsgpack.unpack(reply)
    if r[1] == 'OK' then place = r[2] end
  end
end
for _ = 1, num() do
  local q = nx()
  local e = place and call('HMGET', kh(q), place, place .. 'w')
  local there = e and e[1]
  for _ = 1, num() do
    local record = nx()
    local raw = there and call('HGET', kr(q), record)
    if raw and unrec(raw) == place then
      call('HDEL', kr(q), record)
      call('HDEL', ks(session), item(record, q))
      tell(q, 'r' .. record)
    end
  end
  if there then remove(q, place, there, e[2], '0', session) end
end
call('HSET', ks(session), '.' .. slot, text(number) .. ':')
return {'OK'}

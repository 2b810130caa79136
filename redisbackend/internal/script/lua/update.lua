-- ARGV: queue, place of the entry or '', marks to add, whether data is written, the data, whether a
-- detail is, the detail, ops.
local q, place, marks, writes, data, detailed, detail = nx(), nx(), num(), nx() == '1', nx(), nx() == '1', nx()
local list = ops()
local owner, mode, weight, valued, had, changes, watchers
if place ~= '' then
  local e = call('HMGET', kh(q), place, place .. 'w')
  local header = e[1]
  watchers = e[2]
  if not header then return keep({'GONE'}) end
  owner, mode, weight, valued, had, changes = string.match(header, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  if owner ~= session then return keep({'GONE'}) end
end
local results, refused, raw = conditions(q, list)
if not results then return keep({'REFUSED', 1, refused, raw}) end
if place ~= '' then
  if detailed then call('HSET', kh(q), place .. 'x', detail) end
  if writes then call('HSET', kh(q), place .. 'd', data) end
  had = tonumber(had)
  local now = had
  for _, mark in ipairs({1, 2}) do
    if math.floor(marks / mark) % 2 == 1 and math.floor(had / mark) % 2 == 0 then now = now + mark end
  end
  if writes or now ~= had then
    changes = text(tonumber(changes) + 1)
    call('HSET', kh(q), place, table.concat({owner, mode, weight, valued, text(now), changes}, ' '))
    tellof(q, place, owner, watchers, 'c' .. changes .. ':' .. text(now))
  end
end
operate(q, list, results)
return keep({'OK', results})

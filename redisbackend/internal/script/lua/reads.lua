-- The entries of q from rank lo to rank hi, each as {place, header[, data, detail]}, without a value of
-- detail where there is none; and, if wanted, the sessions that watch the last of them.
local function range(q, lo, hi, detail, watched)
  local out, watchers = {}, nil
  if hi < lo then return out end
  local places = call('ZRANGE', kq(q), lo, hi)
  local each = detail and 3 or 1
  for first = 1, #places, 1000 do -- unpack has a limit
    local fields, last = {}, math.min(first + 999, #places)
    for i = first, last do
      fields[#fields + 1] = places[i]
      if detail then
        fields[#fields + 1] = places[i] .. 'd'
        fields[#fields + 1] = places[i] .. 'x'
      end
    end
    if watched and last == #places then fields[#fields + 1] = places[last] .. 'w' end
    local values = call('HMGET', kh(q), unpack(fields))
    for i = 0, last - first do
      local e = {places[first + i], values[i * each + 1] or ''}
      if detail then
        e[3] = values[i * 3 + 2] or ''
        if values[i * 3 + 3] then e[4] = values[i * 3 + 3] end
      end
      out[#out + 1] = e
    end
    if watched then watchers = values[#fields] end
  end
  return out, watchers
end

-- The records with these names, each as {name, raw}. A name that ends in a slash stands for all that
-- begin with it.
local function records(q, n)
  local out = {}
  for _ = 1, n do
    local name = nx()
    if string.sub(name, -1) == '/' then
      local all = call('HGETALL', kr(q))
      for i = 1, #all, 2 do
        if string.sub(all[i], 1, #name) == name then out[#out + 1] = {all[i], all[i + 1]} end
      end
    else
      local raw = call('HGET', kr(q), name)
      if raw then out[#out + 1] = {name, raw} end
    end
  end
  return out
end

-- The ops of a request. ARGV: how many, and of each: record, kind of condition, what it compares with,
-- whether a value is written, the value, whether it is bound, whether it is optional.
local function ops()
  local list = {}
  for i = 1, num() do
    list[i] = {record = nx(), kind = nx(), with = nx(), writes = nx() == '1', value = nx(), bound = nx() == '1', optional = nx() == '1'}
  end
  return list
end

-- Whether each condition holds, as {'1' or '0', raw}; or nil, and the number and the raw record of the
-- first required op whose condition does not.
local function conditions(q, list)
  local results = {}
  for i, o in ipairs(list) do
    local raw = call('HGET', kr(q), o.record)
    local version, _, value
    if raw then version, _, value = unrec(raw) end
    local met
    if o.kind == '0' then met = not raw
    elseif o.kind == '1' then met = raw and value == o.with
    elseif o.kind == '2' then met = not raw or value == o.with
    else met = raw and version == o.with end
    if not met and not o.optional then return nil, i, raw or '' end
    results[i] = {met and '1' or '0', raw or ''}
  end
  return results
end

local function write(q, o)
  local raw = call('HGET', kr(q), o.record)
  if raw then
    local _, before = unrec(raw)
    if before ~= '' then call('HDEL', ks(before), item(o.record, q)) end
  elseif not o.writes then
    return
  end
  if o.writes then
    call('HSET', kr(q), o.record, tick() .. ':' .. (o.bound and session or '') .. ':' .. o.value)
    if o.bound then call('HSET', ks(session), item(o.record, q), '') end
  else
    call('HDEL', kr(q), o.record)
  end
  tell(q, 'r' .. o.record)
end

-- Does the ops whose conditions hold, and changes the results to what they leave.
local function operate(q, list, results)
  for i, o in ipairs(list) do
    local r = results[i]
    if r[1] == '1' and not (o.kind == '2' and r[2] ~= '') then
      write(q, o)
      r[2] = call('HGET', kr(q), o.record) or ''
    end
  end
end

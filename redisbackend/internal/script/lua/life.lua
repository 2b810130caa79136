-- What grants or writes compares the life in the same step. meta is {life, last}.
local meta = call('HMGET', P .. 'meta', 'life', 'last')
if nx() ~= server or meta[1] ~= server then return {'LIFE'} end

-- The number of this script: place, token, and version. It is above all numbers before it, and follows
-- the clock of the server, so that it rises also where the last one was lost with the data.
local stamp
local function tick()
  if not stamp then
    local t = call('TIME')
    stamp = text(math.max((tonumber(meta[2]) or 0) + 1, t[1] * 1000000 + t[2]))
    call('HSET', P .. 'meta', 'last', stamp)
  end
  return stamp
end

-- A call is carried out at most once. Each has a slot of its session, and a number that is above those
-- of all calls that had the slot before. Field .<slot> keeps the newest number and its reply:
--   the number of this attempt   the call is repeated: the kept reply is the answer
--   a higher one                 this attempt comes too late: another call has the slot, or the call
--                                was given up
--   a lower one                  the call is new
-- ARGV: session, slot, number, how many calls were given up, slot and number of each.
local session, slot, numeral = nx(), nx(), nx()
local number = tonumber(numeral)
local observer = string.sub(session, 1, 1) == 'o' -- it owns nothing, and need not exist
local own = call('HMGET', ks(session), 'a', '.' .. slot)
local alive = own[1]
if not alive and not observer then return {'OVER'} end

local function keep(reply)
  call('HSET', ks(session), '.' .. slot, numeral .. ':' .. cmsgpack.pack(reply))
  if observer then call('EXPIRE', ks(session), 3600) end
  return reply
end

local function numbered(kept)
  local colon = string.find(kept, ':', 1, true)
  return tonumber(string.sub(kept, 1, colon - 1)), string.sub(kept, colon + 1)
end

-- No attempt of the call with this number, or of one before it, is carried out from now on.
local function void(slot, number)
  local kept = call('HGET', ks(session), '.' .. slot)
  if not kept or numbered(kept) <= number then call('HSET', ks(session), '.' .. slot, text(number) .. ':') end
end

-- First, because the answer shows the caller that this was done, also the answer to a repeated call: calls
-- may have been given up since its first attempt.
for _ = 1, num() do void(nx(), num()) end

if own[2] then
  local n, reply = numbered(own[2])
  if n > number or n == number and reply == '' then return {'OLD'} end
  if n == number then return cmsgpack.unpack(reply) end
end

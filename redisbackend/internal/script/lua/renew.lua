-- ARGV: session, whether it is to be made, the greatest number that its program has seen in a life before, and
-- what look takes. Behind what that returns is the number of this renewal.
local session, make, seen = nx(), nx() == '1', num()
if make then
  meta[2] = math.max(tonumber(meta[2]) or 0, seen)
  call('HSET', ks(session), 'a', '1')
elseif call('HEXISTS', ks(session), 'a') == 0 then
  return {'OVER'}
end
call('ZADD', P .. 'ses', tick(), session)
local reply = look()
reply[4] = tick()
return reply

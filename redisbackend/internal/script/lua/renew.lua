-- ARGV: session, whether it is to be made, and what look takes.
local session, make = nx(), nx() == '1'
if make then
  call('HSET', ks(session), 'a', '1')
elseif call('HEXISTS', ks(session), 'a') == 0 then
  return {'OVER'}
end
call('ZADD', P .. 'ses', tick(), session)
return look()

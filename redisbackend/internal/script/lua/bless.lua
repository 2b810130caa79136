-- Declares the data whole in the life of the server, without sessions and what they own.
-- ARGV: life of the server, claim that was counted, greatest TTL in ms.
local life, claim, longest = nx(), nx(), num()
local meta = call('HMGET', P .. 'meta', 'life', 'claim', 'last')
if meta[1] == server then return {'OK'} end
if life ~= server or claim ~= meta[2] then return {'OLD'} end
for _, session in ipairs(call('ZRANGE', P .. 'ses', 0, -1)) do drop(session) end
-- Until the end of the last trust window an older server may have given out tokens by another clock.
local t = call('TIME')
local last = math.max(tonumber(meta[3]) or 0, t[1] * 1000000 + t[2]) + longest * 1000
call('HSET', P .. 'meta', 'layout', '2', 'life', server, 'since', text(last), 'last', text(last))
call('HDEL', P .. 'meta', 'claim', 'sum')
return {'OK'}

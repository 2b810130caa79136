-- Makes a root that was never used. ARGV: greatest TTL in ms, nodes.
local meta = call('HMGET', P .. 'meta', 'life', 'claim')
if meta[1] then return {'THERE'} end
if meta[2] then return {'CLAIMED'} end -- a program counts the time in which another one may still hold
call('HSET', P .. 'meta', 'layout', '2', 'life', server, 'max', nx(), 'nodes', nx())
return {'OK'}

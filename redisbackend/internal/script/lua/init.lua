-- Makes a root that was never used. ARGV: greatest TTL in ms, nodes.
local life = call('HGET', P .. 'meta', 'life')
if life then return {'THERE'} end
call('HSET', P .. 'meta', 'layout', '1', 'life', server, 'max', nx(), 'nodes', nx())
call('HDEL', P .. 'meta', 'claim', 'sum')
return {'OK'}

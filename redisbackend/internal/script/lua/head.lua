-- Every script begins with this. KEYS[1] begins the names of all keys of the root, and has its hash
-- tag: "{root}:". ARGV[1] is the life in which the caller has opened its session.
local P = KEYS[1]
local call = redis.call
local at = 0
local function nx() at = at + 1; return ARGV[at] end
local function num() return tonumber(nx()) end
local function text(x) return string.format('%.0f', x) end -- places are above 2^32

local info = call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then return {'REPLICA'} end
local _, before = string.find(info, 'master_replid:', 1, true)
local server = before and string.match(info, '^%x+', before + 1)

-- What the login may not do of all that the scripts and their clients do: commands to read, and others.
-- Servers before Redis 7.0 cannot be asked.
local lacks, lackstowrite = {}, {}
local function may(list, command, ...)
  if not redis.acl_check_cmd then return end
  local known, ok = pcall(redis.acl_check_cmd, command, ...)
  if not known or not ok then list[#list + 1] = string.lower(command) end
end
do
  local R, W, P = lacks, lackstowrite, KEYS[1]
  local k = P .. 'meta'
  may(R, 'EVAL', '', '1', P)
  may(R, 'EVALSHA', '', '1', P)
  may(R, 'INFO')
  may(R, 'TIME')
  may(R, 'HGET', k, 'x')
  may(R, 'HMGET', k, 'x')
  may(R, 'HGETALL', k)
  may(R, 'ZCARD', k)
  may(R, 'ZCOUNT', k, '0', '1')
  may(R, 'ZMSCORE', k, 'x')
  may(R, 'ZRANGE', k, '0', '1')
  may(R, 'ZRANGEBYLEX', k, '-', '+')
  if #lacks > 0 then return {'DENIED', lacks} end -- some of these are needed below
  local S = string.find(redis.call('INFO', 'server'), '_mode:cluster') and 'S' or ''
  may(R, S .. 'SUBSCRIBE', P .. 'c:')
  may(R, S .. 'UNSUBSCRIBE', P .. 'c:')
  may(W, S .. 'PUBLISH', P .. 'c:', '')
  may(W, 'DEL', k)
  may(W, 'EXISTS', k)
  may(W, 'EXPIRE', k, '1')
  may(W, 'HDEL', k, 'x')
  may(W, 'HEXISTS', k, 'x')
  may(W, 'HKEYS', k)
  may(W, 'HSET', k, 'x', 'x')
  may(W, 'HSETNX', k, 'x', 'x')
  may(W, 'ZADD', k, '0', 'x')
  may(W, 'ZREM', k, 'x')
  may(W, 'ZSCORE', k, 'x')
  may(W, 'WAIT', '1', '1')
end

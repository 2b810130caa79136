package redisfence

// check is the beginning of every Script.
const check = `-- Checks the token ARGV[1] of mode ARGV[2] against the marks in the hash KEYS[1]. It records the
-- token and takes all three away from KEYS and ARGV, or ends the script with an error.
do
	local mark, token, mode = KEYS[1], ARGV[1], ARGV[2]
	local function digits(text)
		return type(text) == 'string' and #text <= 19 and string.find(text, '^[1-9]%d*$')
	end
	-- Tokens have 64 bits, and numbers of Lua 53.
	local function less(a, b)
		return #a < #b or #a == #b and a < b
	end
	if not mark or not digits(token) or mode ~= 'exclusive' and mode ~= 'shared' and mode ~= 'weighted' then
		return redis.error_reply('ERR fairlock: no hold has the token and mode in the arguments')
	end
	local marks = redis.call('HMGET', mark, 'fairlock:exclusive', 'fairlock:shared')
	local exclusive, shared = marks[1] or '', marks[2] or ''
	if exclusive ~= '' and not digits(exclusive) or shared ~= '' and not digits(shared) then
		return redis.error_reply('ERR fairlock: the marks cannot be read')
	end
	local seen = exclusive
	if mode ~= 'shared' and less(seen, shared) then
		seen = shared
	end
	if less(token, seen) then
		return redis.error_reply('FAIRLOCKSTALE ' .. mode .. ' ' .. token .. ' ' .. seen)
	end
	if mode ~= 'shared' and exclusive ~= token then
		redis.call('HSET', mark, 'fairlock:exclusive', token)
	elseif mode == 'shared' and less(shared, token) then
		redis.call('HSET', mark, 'fairlock:shared', token)
	end
	table.remove(KEYS, 1)
	table.remove(ARGV, 1)
	table.remove(ARGV, 1)
end
`

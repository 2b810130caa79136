-- ARGV: how the names begin. No byte of UTF-8 is 255.
local prefix = nx()
return {'OK', call('ZRANGEBYLEX', P .. 'names', '[' .. prefix, '(' .. prefix .. '\255')}

-- ARGV: queue, last place or 0, first place or 0, how many entries before that or 0, details, how many
-- records, their names.
local q, upto, from, nearest, detail = nx(), num(), num(), num(), nx() == '1'
local count, lo, hi
if upto == 0 then
  count = call('ZCARD', kq(q))
  lo, hi = 0, count - 1
  if nearest > 0 then hi = math.min(hi, nearest - 1) end
else
  if from == 0 or from > upto then from = upto end
  count = call('ZCOUNT', kq(q), '-inf', text(upto))
  lo, hi = 0, count - 1
  if nearest > 0 then lo = math.max(0, call('ZCOUNT', kq(q), '-inf', '(' .. text(from)) - nearest) end
end
local entries = range(q, lo, hi, detail)
local complete = lo == 0 and (upto ~= 0 or hi == count - 1)
return {'OK', count, complete and 1 or 0, entries, records(q, num())}

-- ARGV: how many entries, and of each: queue, place, first, whether it may be of another session, ops.
local out = {}
for i = 1, num() do
  local q, place, first, any = nx(), nx(), nx(), nx() == '1'
  local list = ops()
  local e = call('HMGET', kh(q), place, place .. 'w')
  local header = e[1]
  if header and not any and string.match(header, '^%S+') ~= session then header = nil end -- no entry of this owner
  for _, o in ipairs(list) do o.optional = true end
  if header then
    remove(q, place, header, e[2], first, session)
    out[i] = 1
  else
    local bound = {}
    for _, o in ipairs(list) do if o.bound then bound[#bound + 1] = o end end
    list = bound
    out[i] = 0
  end
  if #list > 0 then operate(q, list, (conditions(q, list))) end
end
return keep({'OK', out})

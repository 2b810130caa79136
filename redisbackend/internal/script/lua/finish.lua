-- Ends a session if it has this version, or any one if that is ''. ARGV: session, version.
local session, version = nx(), nx()
if version ~= '' then
  local now = call('ZSCORE', P .. 'ses', session)
  if not now or text(tonumber(now)) ~= version then return {'OK'} end
end
drop(session)
return {'OK'}

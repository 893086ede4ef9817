-- Writes a register whose version is the one given. KEYS: the register, the order of changes.
-- ARGV: name, version (0: there is none), value, time to live in milliseconds (0: for ever).
-- Answers: 1 or 0, name, version, value of what stands there now.
local now = redis.call('TIME')
local us = tonumber(now[1]) * 1000000 + tonumber(now[2])
local old = redis.call('HMGET', KEYS[1], 'v', 'd')
local version = old[1] or '0'
if version ~= ARGV[2] then
  return {0, ARGV[1], version, old[2] or ''}
end
local next = us
if tonumber(version) >= next then next = tonumber(version) + 1 end
local text = string.format('%.0f', next)
redis.call('HSET', KEYS[1], 'v', text, 'd', ARGV[3])
if ARGV[4] == '0' then
  redis.call('PERSIST', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
redis.call('ZADD', KEYS[2], us, ARGV[1])
return {1, ARGV[1], text, ARGV[3]}

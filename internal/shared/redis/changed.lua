-- Registers that were written since a time. KEYS: the order of changes. ARGV: since, in microseconds; what the keys of registers begin with.
-- They have the hash tag of KEYS[1], and so stand on its node.
-- Answers: the time now, then name, version, value of each.
local now = redis.call('TIME')
local out = {string.format('%.0f', tonumber(now[1]) * 1000000 + tonumber(now[2]))}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], '+inf')) do
  local r = redis.call('HMGET', ARGV[2] .. name, 'v', 'd')
  if r[1] then
    out[#out + 1] = name
    out[#out + 1] = r[1]
    out[#out + 1] = r[2]
  else
    redis.call('ZREM', KEYS[1], name)
  end
end
return out

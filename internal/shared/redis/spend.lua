-- Adds to a sum. KEYS: the sum. ARGV: amount, floor, limit (0: none), time to live in milliseconds.
-- The sum is raised to the floor first. Answers: 1 or 0 where the limit leaves no room, and the sum. All of them are whole numbers below 2^53.
local sum = tonumber(redis.call('GET', KEYS[1]) or '0')
local amount, floor, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if floor > sum then sum = floor end
local ok = 1
if limit > 0 and amount > 0 and sum + amount > limit then
  ok = 0
else
  sum = math.max(0, math.min(sum + amount, 9007199254740991))
end
local text = string.format('%.0f', sum)
redis.call('SET', KEYS[1], text, 'PX', ARGV[4])
return {ok, text}

-- Sets what a holder has of a key's slots. KEYS: a hash, holder to 'all:batch:expires:seq:unmet until'.
-- ARGV: holder, seq, hold, hold batch, want, want batch, limit, limit batch, time to live, time for which others are told of a want
-- that was not met (both in milliseconds).
-- Answers: 1, or 0 for a claim that came too late; all, batch that it has; how many have or want something; 1 where another one wants.
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local me, seq = ARGV[1], tonumber(ARGV[2])
local all, batch = tonumber(ARGV[3]), tonumber(ARGV[4])
local want, wantBatch = tonumber(ARGV[5]), tonumber(ARGV[6])
local ttl, unmetTTL = tonumber(ARGV[9]), tonumber(ARGV[10])
local others, othersBatch, holders, wanted, longest = 0, 0, 1, 0, ttl
local rows = redis.call('HGETALL', KEYS[1])
for i = 1, #rows, 2 do
  local a, b, expires, s, unmet = string.match(rows[i + 1], '^(%d+):(%d+):(%d+):(%d+):(%d+)$')
  a, b, expires, s, unmet = tonumber(a), tonumber(b), tonumber(expires), tonumber(s), tonumber(unmet)
  if rows[i] == me then
    if s >= seq then return {0, 0, 0, 0, 0} end
  elseif expires <= now then
    redis.call('HDEL', KEYS[1], rows[i])
  else
    others, othersBatch = others + a, othersBatch + b
    if a > 0 or unmet > now then holders = holders + 1 end
    if unmet > now then wanted = 1 end
  end
end
local free = math.max(0, tonumber(ARGV[7]) - others - all)
local freeBatch = math.max(0, tonumber(ARGV[8]) - othersBatch - batch)
local unmet = 0
if want > free or wantBatch > freeBatch then
  if (want > 0 and free == 0) or (wantBatch > 0 and freeBatch == 0) then unmet = now + unmetTTL end
end
all, batch = all + math.min(want, free), batch + math.min(wantBatch, freeBatch)
redis.call('HSET', KEYS[1], me, string.format('%d:%d:%.0f:%.0f:%.0f', all, batch, now + ttl, seq, unmet))
redis.call('PEXPIRE', KEYS[1], ttl * 4)
return {1, all, batch, holders, wanted}

-- Moves an order that cannot be written from the stream to the dead letters.
-- KEYS[1]: the stream of accepted orders
-- KEYS[2]: the dead letters, a stream
-- KEYS[3]: the accepted orders, a hash: the entry in the stream by the order's id
-- KEYS[4]: the idempotency keys of accepted orders, a hash: the order's id by its key
-- KEYS[5]: the stock that the units were taken from, a string: the units left
-- KEYS[6]: the units of each buyer in that generation, a hash, if there is a limit
-- KEYS[7]: how many times the database has refused an entry, a hash: the count by the entry
-- ARGV[1]: the consumer group
-- ARGV[2]: the entry in the stream
-- ARGV[3]: the order's id
-- ARGV[4]: the order's idempotency key to release, '' for none
-- ARGV[5]: how many units to put back, if the stock exists
-- ARGV[6]: how many dead letters are kept
-- ARGV[7]: the name of the buyer, '' for none
-- ARGV[8], ARGV[9], ...: the names and values of the dead letter
-- Returns 1: moved
--         0: the entry is no longer in the stream, and nothing was written
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)[1] -- nil: no such group or entry
redis.call('HDEL', KEYS[7], ARGV[2])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
if redis.call('XDEL', KEYS[1], ARGV[2]) == 0 then
  return 0
end
local letter = redis.call('XADD', KEYS[2], '*', 'deliveries', pending and pending[4] or 0, unpack(ARGV, 8))
redis.call('HSET', KEYS[3], ARGV[3], 'dead:' .. letter)
if ARGV[4] ~= '' and redis.call('HGET', KEYS[4], ARGV[4]) == ARGV[3] then
  redis.call('HDEL', KEYS[4], ARGV[4])
end
if tonumber(ARGV[5]) > 0 and redis.call('EXISTS', KEYS[5]) == 1 then
  redis.call('INCRBY', KEYS[5], ARGV[5])
  if ARGV[7] ~= '' and redis.call('HEXISTS', KEYS[6], ARGV[7]) == 1 then
    redis.call('HINCRBY', KEYS[6], ARGV[7], -tonumber(ARGV[5]))
  end
end
while redis.call('XLEN', KEYS[2]) > tonumber(ARGV[6]) do
  local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
  for i = 1, #oldest[2], 2 do
    if oldest[2][i] == 'id' then
      redis.call('HDEL', KEYS[3], oldest[2][i + 1])
    end
  end
  redis.call('XDEL', KEYS[2], oldest[1])
end
return 1

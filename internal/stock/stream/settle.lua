-- Removes orders of one sale from the stream once they are in the database.
-- KEYS[1]: the stream of accepted orders
-- KEYS[2]: the accepted orders, a hash: the entry in the stream by the order's id
-- KEYS[3]: the idempotency keys of accepted orders, a hash: the order's id by its key
-- KEYS[4]: the claims on idempotency keys of this period, a hash with a field for each
-- ARGV[1]: the consumer group
-- ARGV[2]: how long claims are kept after the last one, in milliseconds
-- ARGV[3], ARGV[6], ...: each order's entry in the stream
-- ARGV[4], ARGV[7], ...: each order's id
-- ARGV[5], ARGV[8], ...: each order's idempotency key, '' for none
-- Returns how many entries were removed. The key of an order becomes a claim: a request
-- that looked for the order before it was written must not buy again.
local removed, claimed = 0, false
for i = 3, #ARGV, 3 do
  local entry, order, key = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  redis.call('XACK', KEYS[1], ARGV[1], entry)
  removed = removed + redis.call('XDEL', KEYS[1], entry)
  if redis.call('HGET', KEYS[2], order) == entry then
    redis.call('HDEL', KEYS[2], order)
  end
  if key ~= '' and redis.call('HGET', KEYS[3], key) == order then
    redis.call('HDEL', KEYS[3], key)
    redis.call('HSET', KEYS[4], key, '')
    claimed = true
  end
end
if claimed then
  redis.call('PEXPIRE', KEYS[4], ARGV[2])
end
return removed

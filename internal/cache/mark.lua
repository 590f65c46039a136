-- Marks a value as missing unless it was forgotten since the ticket was drawn, and removes
-- everything else that the load has left.
-- KEYS[1]: the value
-- KEYS[2]: the ticket
-- KEYS[3]: the loads
-- ARGV[1]: the loader's ticket
-- ARGV[2]: the marker
-- ARGV[3]: the ttl, in milliseconds
-- Returns 1: it is marked
--         0: the ticket is no longer valid
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[2], KEYS[3])
return 1

-- Stores a value unless it was forgotten since the ticket was drawn.
-- KEYS[1]: the value
-- KEYS[2]: the ticket
-- KEYS[3] and further: keys to remove
-- ARGV[1]: the loader's ticket
-- ARGV[2]: what to store
-- ARGV[3]: the ttl, in milliseconds
-- Returns 1: it is stored
--         0: the ticket is no longer valid
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
end
return 1

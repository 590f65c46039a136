-- Removes the keys of a generation if it is the one that Redis has.
-- KEYS[1]: the sale, a string: the current generation
-- KEYS[2], KEYS[3], ...: the generation's other keys
-- ARGV[1]: the generation to remove
-- Returns 1: removed
--         0: Redis has another one
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', unpack(KEYS))
return 1

-- Removes the keys of a generation, unless another has taken its place.
-- KEYS[1]: the sale, a string: the generation that is current
-- KEYS[2], KEYS[3], ...: the generation's other keys
-- ARGV[1]: the generation to remove
-- Returns 1: removed
--         0: another one is current
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', unpack(KEYS))
return 1

-- DELIFEQ key value.
-- KEYS[1]: the key, a string
-- ARGV[1]: the value that it must have
-- Returns 1: it is deleted
--         0: it has another value, or does not exist
local now = redis.pcall('GET', KEYS[1])
if type(now) == 'table' and now.err then
  return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
if now ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])

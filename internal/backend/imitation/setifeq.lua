-- SET key value IFEQ old, with the other options of SET.
-- KEYS[1]: the key, a string
-- ARGV[1]: the value that it must have
-- ARGV[2]: the new value; ARGV[3] and more: the other options
-- Returns OK:  it is set; without PX, EX or KEEPTTL it then has no ttl, as after any SET
--         nil: it has another value, or does not exist; nothing is changed
local now = redis.pcall('GET', KEYS[1])
if type(now) == 'table' and now.err then
  return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
if now ~= ARGV[1] then
  return false
end
return redis.call('SET', KEYS[1], unpack(ARGV, 2))

-- Gives the hold new tokens, larger than one that a resource has seen, if the lock is still
-- the ticket's. The resource may remember that token for longer than Redis does.
-- KEYS[1]: the lock, a string: the ticket of its holder
-- KEYS[2]: the last token, a string
-- ARGV[1]: the ticket
-- ARGV[2]: ttl, in milliseconds
-- ARGV[3]: the token that was seen
-- ARGV[4]: how many tokens a hold may use, one for each of its holders
-- Returns token: the first of the new tokens
--         0: the lock is not the ticket's: it has expired, or another ticket has it
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
local token = math.max(last, tonumber(ARGV[3])) + ARGV[4]
redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', 2 * ARGV[2])
return token

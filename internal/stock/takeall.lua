-- Takes units from the stock of a sale for several buyers, one after the other:
-- for each if enough are left when his turn has come. Where there were too few
-- for one, a later one who wants less may still be served.
-- KEYS[1]: the sale, a string: the id of the one that is on
-- KEYS[2]: the stock of the buyers' sale, a string: the units left
-- KEYS[3], KEYS[4], ...: for each buyer the claim on his idempotency key, a
--          string; KEYS[2] once more if he has none
-- ARGV[1]: the id of the buyers' sale
-- ARGV[2]: for how long a claim stays, in milliseconds
-- ARGV[3], ARGV[4], ...: how many units each buyer wants
-- Returns a list with an answer for each buyer, in their order:
--           n: the units are taken, and the key is claimed; n are left
--           -2: somebody else has claimed the key
--           -3 - n: nothing is taken, for only n units are left
--         an empty list: another sale is on, or its stock is not there
local left = redis.call('GET', KEYS[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] or not left then
  return {}
end
left = tonumber(left)
local answers, taken = {}, 0
for i = 3, #ARGV do
  local wanted, keyed = tonumber(ARGV[i]), KEYS[i] ~= KEYS[2]
  local answer
  if keyed and redis.call('EXISTS', KEYS[i]) == 1 then
    answer = -2
  elseif left < wanted then
    answer = -3 - math.max(0, left)
  else
    if keyed then
      redis.call('SET', KEYS[i], '', 'PX', ARGV[2])
    end
    left, taken = left - wanted, taken + wanted
    answer = left
  end
  answers[#answers + 1] = answer
end
if taken > 0 then
  redis.call('DECRBY', KEYS[2], taken)
end
return answers

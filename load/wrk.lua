-- Buys one unit with each request of wrk, and writes what the buyers were told to the file that
-- the environment variable TOLD names. load/run starts it.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"quantity":1}'

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init()
  statuses = {} -- a global, so that done can read it
end

function response(status)
  statuses[status] = (statuses[status] or 0) + 1
end

function done(summary)
  local counts, answered = {}, 0
  for _, thread in ipairs(threads) do
    for status, n in pairs(thread:get("statuses")) do
      counts[status] = (counts[status] or 0) + n
      answered = answered + n
    end
  end
  local fields = {}
  for status, n in pairs(counts) do
    table.insert(fields, string.format('"%d":%d', status, n))
  end
  local e = summary.errors
  local dropped = e.connect + e.read + e.write + e.timeout
  -- wrk does not wait for the replies that are under way at the end: at most one per connection.
  local cutOff = tonumber(os.getenv("CONNECTIONS"))
  local file = assert(io.open(os.getenv("TOLD"), "w"))
  file:write(string.format('{"requests":%d,"status_codes":{%s},"dropped":%d,"cut_off":%d}\n',
    answered + dropped, table.concat(fields, ","), dropped, cutOff))
  file:close()
end

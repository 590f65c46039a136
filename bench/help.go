package main

import "oversell/internal/cmdline"

var helpText = cmdline.Help{
	Program: "go run ./bench",
	Usage: `Bench starts shops in separate processes, sends thousands of concurrent requests
for one hot item, and reports what each strategy for guarding the stock oversold
under each condition: calm, slow holders, crashes, and so on.

Usage: bench [flags]
       bench compare OLD.json [NEW.json]    what changed, and what is noise (compare -h)
       bench audit [-told FILE] URL         checks the books of a running shop (audit -h)

Examples:
  go run ./bench                                     everything, on embedded backends
  go run ./bench -strategies none,v6_watchdog -conditions calm,slow
  go run ./bench -strategies v1,v2,h3 -conditions crash   short names, of v1_setnx, v2_ttl and h3_claim
  go run ./bench -redis local -db local              a private redis-server and mariadbd from the PATH
  go run ./bench -repeat 6 -html report.html -json new.json   medians, as a page and as data
`,
	Usual: "strategies conditions requests stock rate repeat redis db html json",
	End: `Exit code: 0 if every row matched the catalog's expectation, 1 if one did not, 2 if
the bench could not run.`,
	More: `
  go run ./bench -requests 5000 -stock 5000 -strategies watch,v6_watchdog -conditions calm
  go run ./bench -items 1000 -skew zipf:1.1 -requests 20000 -strategies v6_watchdog,v9_cohort
                                                     a thousand items, some wanted by many and most by few
  go run ./bench -rate 500 -duration 10s -stock 2000 -conditions calm
                                                     500 buyers a second, without waiting for earlier replies
  go run ./bench -strategies v8_fenced -conditions pause -unfenced
                                                     fencing tokens that the stock does not check
  go run ./bench -db local -strategies sql_conditional,sql_version,sql_for_update,sql_get_lock,sql_units
                                                     conditional updates, row locks and a row per unit
  go run ./bench -keeper database -strategies v6_watchdog,v9_cohort
                                                     locks, with the stock in the database
  go run ./bench -redis local -conditions failover -strategies v6_watchdog,v9_cohort,redlock
                                                     a sentinel set whose primary is killed
  go run ./bench -redis local -db local -conditions chaos -seed 7 -strategies v6_watchdog,lua_batch
                                                     faults in shops, Redis, the database and the network
  go run ./bench -strategies redlock,etcd,zookeeper -conditions calm,pause
                                                     five Redis nodes, a private etcd and ZooKeeper
  go run ./bench -workload cache                     readers of a cold key
  go run ./bench -workload cache -second-look=false -conditions calm
  go run ./bench -workload lock -redis local         all locks without a shop, 5,000 contenders in one process
  go run ./bench -workload lock -redis local -instances 4 -repeat 5 -strategies v7_queue,redsync,rueidislock
  go run ./bench -strategies lua_stream,h3_claim -conditions calm,crash
                                                     two workloads in one run: deduct, and hold with its own sizes
  go run ./bench -workload hold                      buyers who hold a unit and pay later
  go run ./bench -workload hold -redis local -db local -strategies h3_claim -conditions crash -seam all
  go run ./bench -redis local -db local -strategies lua_stream -conditions crash -seam all
                                                     processes killed after the script, and where orders are written
  go run ./bench -redis local -conditions calm,failover -strategies lua_stream -accept-replicas 2
                                                     orders that no failover loses, and what that costs
  go run ./bench -redis redis://:secret@10.0.0.5:6379 -db 'user:secret@tcp(10.0.0.6:3306)/shop'
  go run ./bench -target http://127.0.0.1:8080       a shop that is already running
  go run ./bench -json - | jq '.rows[].verdict'
  go run ./bench -html report.html -lang zh          in Chinese, as is the table
  go run ./bench compare old.json new.json

Conditions:
  calm       no fault
  slow       some holders work for longer than the ttl before they write
  late       some holders write in time and unlock after the ttl
  crash      a process that holds the lock is killed
  pause      a process that holds the lock is stopped for longer than the ttl
  partition  a process that holds the lock loses its connection to Redis as it writes,
             for longer than the ttl; what it has sent arrives afterwards
  failover   the Redis primary with the lock is killed, and a replica that does not have
             it is promoted; needs -redis local; buyers arrive over ten seconds
  chaos      faults drawn by -seed in shops, Redis, the database and the network, while
             200 buyers a second arrive for a minute and retry; only by itself, and on
             servers that the bench starts (-redis local -db local for all faults)

Each flag has an environment variable as its default: OVERSELL_REDIS for -redis, and so on.
`,
	Groups: []cmdline.Group{
		{Title: "What is run", Flags: "workload strategies conditions repeat instances target token"},
		{Title: "The sale", Flags: "requests stock rate duration in-flight items skew keys keeper"},
		{Title: "The strategies", Flags: "ttl work wait retry unfenced accept-replicas second-look"},
		{Title: "The faults", Flags: "seed faults seam"},
		{Title: "The servers", Flags: "redis db redlock etcd zookeeper"},
		{Title: "The report", Flags: "html json lang"},
	},
}

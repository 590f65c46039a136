package main

import "oversell/internal/cmdline"

var helpText = cmdline.Help{
	Program: "go run ./cmd/lab",
	Usage: `Lab breaks each lock, each stage of a hold, and each way of writing orders and
repairing a stock on purpose, in the same way every time, and shows how: three
tables of anomalies against strategies in which every cell is the outcome of a
run of the real code.

Usage: lab [flags]

Examples:
  go run ./cmd/lab                                         the whole table, in virtual time
  go run ./cmd/lab -run check-then-delete -strategies v3_uuid  the timeline of one cell
  go run ./cmd/lab -run starvation,retry-storm             some rows
  go run ./cmd/lab -strategies yours                       grades your own lock: docs/your-lock.md
  go run ./cmd/lab -search v3_uuid                         every schedule of two buyers: docs/lab.md
`,
	Usual: "run strategies list search replay redis db html json lang",
	End: `Exit code: 0 if every cell has its recorded outcome, 1 if a cell has another
outcome or none on record (yours needs none, and -record writes them), 2 if the
lab could not run.`,
	More: `  go run ./cmd/lab -strategies redsync,v4_lua              some columns
  go run ./cmd/lab -run late-payment -strategies h2_status  a cell of the table of holds
  go run ./cmd/lab -run database-reply-lost -strategies overwrite  a cell of the table of repairs and consumers
  go run ./cmd/lab -strategies mine -record internal/lab/record.json  puts a new strategy on record
  go run ./cmd/lab -html lab.html                          one file with every timeline
  go run ./cmd/lab -site public                            the page without a shop, as files: docs/page.md
  go run ./cmd/lab -lang zh                                in Chinese
  go run ./cmd/lab -redis local                            on private servers, started from the PATH, in real time
  go run ./cmd/lab -strategies etcd,zookeeper              locks on other servers, in real time

OVERSELL_REDIS and OVERSELL_DB in the environment are the defaults of -redis and -db.
`,
	Groups: []cmdline.Group{
		{Title: "The tables", Flags: "run strategies strategy list ttl"},
		{Title: "Every schedule", Flags: "search replay goal buyers"},
		{Title: "The servers", Flags: "redis db redlock etcd zookeeper"},
		{Title: "The report", Flags: "html json lang site"},
		{Title: "What is on record", Flags: "record readme check"},
	},
}

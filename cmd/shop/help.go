package main

import (
	"fmt"
	"io"
	"strings"

	"oversell/internal/catalog"
	"oversell/internal/cmdline"
)

var helpText = cmdline.Help{
	Program: "go run ./cmd/shop",
	Usage: `Shop is a flash sale: one hot item, and a switch for how its stock is guarded.

Usage: shop [flags]

Examples:
  shop                                            everything embedded, nothing to install
  shop -strategy none                             sells too much
  shop -redis local -db local                     a private Redis and MariaDB from the PATH
  shop -class                                     a class buys from its phones: see docs/teaching.md
  shop -addr 0.0.0.0:8080 -hosts shop.example     for others, under this name
`,
	Usual: "strategy addr hosts token class redis db ttl wait retry",
	End:   "Each flag has an environment variable as its default: OVERSELL_ADDR for -addr.",
	More: `  shop -redis local:cluster                       a private cluster: 3 primaries, 3 replicas
  shop -redis redis://:secret@10.0.0.7:6379/1     your own Redis; rediss:// for TLS
  shop -redis redis://a:7000,b:7001,c:7002        your own cluster
  shop -redis redis+sentinel://a:26379/name/0     the primary that sentinels call name
  shop -redlock a:6379,b:6379,c:6379 -etcd http://d:2379 -zookeeper e:2181
                                                  what redlock, etcd and zookeeper need
  shop -provider http://127.0.0.1:8090 -webhook-secret-file secret
                                                  payments by cmd/provider: see docs/sale.md
  shop -db 'user:secret@tcp(10.0.0.8:3306)/sales' your own MySQL
  shop -worker -redis redis://10.0.0.7 -db 'user:secret@tcp(10.0.0.8:3306)/sales'
                                                  write what shops accept with lua_stream
  shop -otlp http://127.0.0.1:4318                traces of purchases: see docs/watch.md
` + strategies(),
	Groups: []cmdline.Group{
		{Title: "The shop", Flags: "addr hosts token class log otlp check"},
		{Title: "The strategies", Flags: "strategy ttl wait retry unfenced mixed reconcile"},
		{
			Title: "Holds and payments",
			Flags: "hold-ttl hold-max hold-settle hold-limit provider provider-name webhook-secret-file",
		},
		{Title: "Orders behind the sale", Flags: "worker consume claim backlog accept-replicas"},
		{Title: "The servers", Flags: "redis db redlock etcd zookeeper"},
	},
}

func strategies() string {
	var b strings.Builder
	b.WriteString("\nStrategies:\n")
	for _, s := range catalog.Strategies() {
		fmt.Fprintf(&b, "  %-13s %s\n", s.Name, strings.TrimSpace(s.Adds))
	}
	return b.String()
}

// help writes the help text.
func help(w io.Writer, args []string) { helpText.Write(w, flags(new(options), new(string)), args) }

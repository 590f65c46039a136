package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/catalog"
)

// flagsOf lists the flags that each workload takes.
var flagsOf = map[string][]string{
	string(catalog.Deduct): strings.Fields(`workload strategies conditions requests stock instances ttl repeat
		redis db redlock etcd zookeeper target token rate duration in-flight items skew seed faults seam
		work wait retry keys keeper unfenced accept-replicas json html lang`),
	string(catalog.Cache): strings.Fields(`workload strategies conditions requests instances ttl repeat
		redis db redlock etcd zookeeper target token in-flight work wait retry second-look json html lang`),
	string(catalog.Hold): strings.Fields(`workload strategies conditions requests stock instances ttl repeat
		redis db seam json html lang`),
	workloadLock: strings.Fields(`workload strategies conditions requests instances ttl repeat
		redis redlock etcd zookeeper wait json lang`),
}

// checkTaken refuses flags that the workload does not take.
func checkTaken(line *flag.FlagSet, workload string) (err error) {
	taken, known := flagsOf[workload]
	line.Visit(func(f *flag.Flag) {
		if known && !slices.Contains(taken, f.Name) {
			err = fmt.Errorf("-%s is not a flag of workload %s, which takes -%s", f.Name, workload, strings.Join(taken, ", -"))
		}
	})
	return err
}

package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// mode is what the program does. Each one but the table is named by its flag.
type mode string

const (
	modeTable  mode = "the table"
	modeList   mode = "-list"
	modeSearch mode = "-search"
	modeReplay mode = "-replay"
	modeSite   mode = "-site"
)

// flagsOf lists the flags that each mode takes.
var flagsOf = map[mode][]string{
	modeTable: strings.Fields(`run strategy strategies redis db redlock etcd zookeeper ttl
		json html readme check record lang`),
	modeList:   strings.Fields("list lang"),
	modeSearch: strings.Fields("search goal buyers record readme check lang"),
	modeReplay: strings.Fields("replay goal buyers lang"),
	modeSite:   strings.Fields("site"),
}

// modeOf finds the mode that the flags ask for, and refuses those that it does not take.
func modeOf(fs *flag.FlagSet) (m mode, err error) {
	m = modeTable
	for _, named := range []mode{modeSite, modeSearch, modeReplay, modeList} {
		if given(fs, string(named[1:])) {
			m = named
			break
		}
	}
	fs.Visit(func(f *flag.Flag) {
		if taken := flagsOf[m]; !slices.Contains(taken, f.Name) {
			err = fmt.Errorf("-%s is not a flag of %s, which takes -%s", f.Name, m, strings.Join(taken, ", -"))
		}
	})
	return m, err
}

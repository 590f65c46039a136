package show

import (
	"regexp"
	"strings"
)

// shortNames are the column heads of strategies whose names are too long.
var shortNames = map[string]string{
	"redsync":             "rsync",
	"redislock":           "rlock",
	"redsync_extended":    "rsyn+",
	"redislock_refreshed": "rlck+",
	"rueidislock":         "rueid",
	"redlock":             "redl",
	"zookeeper":           "zk",
}

// stageName matches the stages, such as v1_setnx or h1_counter. The strategies after them
// are third-party locks.
var stageName = regexp.MustCompile(`^[vh]\d+_`)

// headWidth is the maximum number of letters in a column head.
const headWidth = 6

// short returns the head of a strategy's column.
func short(strategy string) string {
	if s, ok := shortNames[strategy]; ok {
		return s
	}
	if stage := stageName.FindString(strategy); stage != "" {
		return strings.TrimSuffix(stage, "_")
	}
	if r := []rune(clean(strategy)); len(r) > headWidth {
		return string(r[:headWidth])
	}
	return clean(strategy)
}

// shortened lists the full names of the strategies with short names.
func shortened(strategies []string) string {
	var out []string
	for _, s := range strategies {
		if short(s) != s {
			out = append(out, short(s)+" = "+clean(s))
		}
	}
	return strings.Join(out, ", ")
}

// newGroup reports whether the group of stages begins or ends before the i-th
// strategy.
func newGroup(strategies []string, i int) bool {
	return i > 0 && stageName.MatchString(strategies[i]) != stageName.MatchString(strategies[i-1])
}

package show

import (
	"regexp"
	"strings"
)

// shortNames are the heads of columns whose strategies have a name too long
// for one.
var shortNames = map[string]string{
	"redsync":     "rsync",
	"redislock":   "rlock",
	"rueidislock": "rueid",
	"redlock":     "redl",
	"zookeeper":   "zk",
}

// stageName matches the stages, v1_setnx and so on. What follows them are
// other people's locks.
var stageName = regexp.MustCompile(`^v\d+_`)

// headWidth is how many letters the head of a column has at most.
const headWidth = 6

// short is a strategy's name as the head of its column.
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

// shortened lists what the short names stand for.
func shortened(strategies []string) string {
	var out []string
	for _, s := range strategies {
		if short(s) != s {
			out = append(out, short(s)+" = "+clean(s))
		}
	}
	return strings.Join(out, ", ")
}

// newGroup reports whether the stages begin or end at the i-th strategy.
func newGroup(strategies []string, i int) bool {
	return i > 0 && stageName.MatchString(strategies[i]) != stageName.MatchString(strategies[i-1])
}

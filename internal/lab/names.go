package lab

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"oversell/internal/lab/wire"
)

// names turns what goes over the wire into what can be read: keys, tokens and
// scripts get short names, the same ones in every run.
type names struct {
	start   time.Time
	mu      sync.Mutex
	known   map[string]string // key or token -> its name
	tokens  map[string]int    // actor -> how many tokens it has used
	scripts map[string]string // hash -> name
}

func newNames(start time.Time) *names {
	return &names{start: start, known: make(map[string]string), tokens: make(map[string]int), scripts: make(map[string]string)}
}

// call gives a key or token its name.
func (n *names) call(arg, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[arg] = name
}

// text shows a command as one would type it.
func (n *names) text(actor string, cmd wire.Command) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	args, words := cmd.Args[1:], []string{cmd.Name()}
	if cmd.Script() && len(args) >= 2 {
		words = append(words, n.script(cmd))
		args = args[2:] // the script and the number of keys
	}
	for _, arg := range args {
		words = append(words, n.name(actor, arg))
	}
	return strings.Join(words, " ")
}

// value shows what is in a reply, where tokens have names too.
func (n *names) value(text string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for arg, name := range n.known {
		if strings.Contains(text, arg) {
			text = strings.ReplaceAll(text, arg, name)
		}
	}
	return text
}

// name returns the name of an argument. A token is called after the actor who
// first used it, and counted.
func (n *names) name(actor, arg string) string {
	if name, ok := n.known[arg]; ok {
		return name
	}
	if when, ok := n.moment(arg); ok {
		return when
	}
	if !looksRandom(arg) {
		return arg
	}
	n.tokens[actor]++
	name := fmt.Sprintf("token-%s%d", actor, n.tokens[actor])
	n.known[arg] = name
	return name
}

// moment shows a Unix time in milliseconds, as PXAT takes it, as the time since
// the cell began.
func (n *names) moment(arg string) (string, bool) {
	ms, err := strconv.ParseInt(arg, 10, 64)
	since := ms - n.start.UnixMilli()
	if hour := time.Hour.Milliseconds(); err != nil || since < -hour || since > hour {
		return "", false
	}
	return fmt.Sprintf("start+%d", since), true
}

// looksRandom tells a token from a word or a number that means something.
func looksRandom(arg string) bool {
	if strings.ContainsFunc(arg, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return true
	}
	return len(arg) >= 16 && strings.ContainsFunc(arg, unicode.IsLetter)
}

// script names a script by what its first comment line says it does, or else
// by the commands in it.
func (n *names) script(cmd wire.Command) string {
	source := cmd.Args[1]
	if cmd.Is("EVALSHA", "EVALSHA_RO") {
		if name, ok := n.scripts[source]; ok {
			return name
		}
		return source[:min(8, len(source))]
	}
	sum := sha1.Sum([]byte(source))
	name := describe(source)
	n.scripts[hex.EncodeToString(sum[:])] = name
	return name
}

var redisCall = regexp.MustCompile(`(?i)redis\.p?call\(\s*["'](\w+)["']`)

func describe(source string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(source), "\n")
	if comment, ok := strings.CutPrefix(first, "--"); ok {
		return "«" + strings.TrimSuffix(strings.TrimSpace(comment), ".") + "»"
	}
	var calls []string
	for _, m := range redisCall.FindAllStringSubmatch(source, -1) {
		calls = append(calls, strings.ToUpper(m[1]))
	}
	return "«" + strings.Join(calls, ", ") + "»"
}

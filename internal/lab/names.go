package lab

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"oversell/internal/fault"
)

// names makes commands and replies readable: keys, tokens and scripts get short names,
// the same ones in every run.
type names struct {
	start   time.Time
	micros  bool // fencing tokens are shown as moments too
	mu      sync.Mutex
	known   map[string]string // key or token -> its name
	tokens  map[string]int    // actor -> how many tokens it has used
	users   map[string]string // token or owner -> the actor who first used it
	holders map[string]string // a lock's value -> the actor who has the lock then
	scripts map[string]string // hash -> name
	ids     int               // how many have got a name in a reply
}

func newNames(start time.Time) *names {
	return &names{start: start, known: make(map[string]string), tokens: make(map[string]int),
		users: make(map[string]string), holders: make(map[string]string), scripts: make(map[string]string)}
}

// call gives a key or token its name.
func (n *names) call(arg, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[arg] = name
}

// text shows a command as one would type it.
func (n *names) text(actor string, cmd fault.Command) string {
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

// value shows what is in a reply, where tokens have names too. A key may be
// part of another's name: the longest come first.
func (n *names) value(text string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replaced(text, n.longest())
}

func (n *names) longest() []string {
	return slices.SortedFunc(maps.Keys(n.known), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
}

// replaced is a text with names for known, in that order, and for the moments and ids in it.
func (n *names) replaced(text string, known []string) string {
	for _, arg := range known {
		text = strings.ReplaceAll(text, arg, n.known[arg])
	}
	text = momentForm.ReplaceAllStringFunc(text, func(found string) string {
		if when, ok := n.moment(found); ok {
			return when
		}
		return found
	})
	return idForm.ReplaceAllStringFunc(text, func(found string) string {
		if n.known[found] == "" {
			n.ids++
			n.known[found] = fmt.Sprintf("id-%d", n.ids)
		}
		return n.known[found]
	})
}

var (
	// momentForm is a Unix time in milliseconds or microseconds, as it is, or with a number behind it
	// as the id of an entry in a stream.
	momentForm = regexp.MustCompile(`\b\d{12,16}(-\d+)?\b`)
	// idForm is a UUID. One that nobody has sent has no name when a reply brings it.
	idForm = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
)

// name returns the name of an argument. A token is called after the actor who
// first used it, and counted.
func (n *names) name(actor, arg string) string {
	if name, ok := n.known[arg]; ok {
		return name
	}
	if name, ok := n.beside(actor, arg); ok {
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
	n.known[arg], n.users[arg] = name, actor
	return name
}

// beside names a key that is called after one with a name, as the queue beside
// a lock is: "lock:queue". A token in it has its name, too.
func (n *names) beside(actor, arg string) (string, bool) {
	i := strings.LastIndexByte(arg, ':')
	if i < 0 {
		return "", false
	}
	name, ok := n.known[arg[:i]]
	if !ok {
		name, ok = n.beside(actor, arg[:i])
	}
	if !ok {
		return "", false
	}
	return name + ":" + n.name(actor, arg[i+1:]), true
}

// holds notes a lock's value that a command of an actor has put there. A token is that of the actor
// who first used it, although another may have handed the lock on.
func (n *names) holds(actor, value string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holders[value] = cmp.Or(n.users[value], actor)
}

// holder returns the actor whose lock has that value, or "".
func (n *names) holder(value string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.holders[value]
}

// used notes an actor who uses an owner's name, if none has before.
func (n *names) used(actor, owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.users[owner] == "" {
		n.users[owner] = actor
	}
}

// moment shows a Unix time in milliseconds, as PXAT takes it, as the time since
// the cell began; and the same in the id of an entry in a stream. In a schedule it does so for the
// microseconds of a fencing token too.
func (n *names) moment(arg string) (string, bool) {
	text, nth, entry := strings.Cut(arg, "-")
	value, err := strconv.ParseInt(text, 10, 64)
	if entry && err == nil {
		_, err = strconv.Atoi(nth)
	}
	since, hour := value-n.start.UnixMilli(), time.Hour.Milliseconds()
	micros := value - n.start.UnixMicro()
	switch {
	case err != nil:
		return "", false
	case n.micros && !entry && micros >= 0 && micros < time.Hour.Microseconds():
		return fmt.Sprintf("start+%dµs", micros), true
	case since < -hour || since > hour:
		return "", false
	case entry:
		return fmt.Sprintf("start+%d-%s", since, nth), true
	}
	return fmt.Sprintf("start+%d", since), true
}

// ReplaceRandom replaces what is random in an argument of a command: the ids in it, or all of it.
func ReplaceRandom(arg string, by func(random string) string) string {
	if len(arg) >= 16 && !strings.Contains(arg, ":") && strings.ContainsFunc(arg, unicode.IsLetter) &&
		!idForm.MatchString(arg) {
		return by(arg)
	}
	return idForm.ReplaceAllStringFunc(arg, by)
}

// looksRandom tells a token from a word or a number that means something.
func looksRandom(arg string) bool {
	if strings.ContainsFunc(arg, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return true
	}
	return len(arg) >= 16 && strings.ContainsFunc(arg, unicode.IsLetter)
}

// script names a script by what the first sentence of its comment says it does,
// or else by the commands in it.
func (n *names) script(cmd fault.Command) string {
	source := cmd.Args[1]
	if cmd.Is("EVALSHA", "EVALSHA_RO") {
		if name, ok := n.scripts[source]; ok {
			return name
		}
		return source[:min(8, len(source))]
	}
	name := ScriptName(source)
	n.scripts[ScriptHash(source)] = name
	return name
}

var redisCall = regexp.MustCompile(`(?i)redis\.p?call\(\s*["'](\w+)["']`)

// ScriptName is what a script is called in the text of a command.
func ScriptName(source string) string {
	if comment := firstSentence(source); comment != "" {
		return "«" + comment + "»"
	}
	var calls []string
	for _, m := range redisCall.FindAllStringSubmatch(source, -1) {
		calls = append(calls, strings.ToUpper(m[1]))
	}
	return "«" + strings.Join(calls, ", ") + "»"
}

// firstSentence returns that of the comment at the top of a script, or its
// first line if nothing ends it, or "" if there is no comment.
func firstSentence(source string) string {
	var text, first string
	for line := range strings.Lines(strings.TrimSpace(source)) {
		comment, ok := strings.CutPrefix(line, "--")
		if !ok {
			break
		}
		text = strings.TrimSpace(text + " " + strings.TrimSpace(comment))
		first = cmp.Or(first, text)
		if sentence, _, ended := strings.Cut(text+" ", ". "); ended {
			return sentence
		}
	}
	return first
}

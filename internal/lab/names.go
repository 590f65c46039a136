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

// names makes commands and replies readable. It gives keys, tokens and scripts short names, which
// are the same in every run.
type names struct {
	start   time.Time
	micros  bool // fencing tokens are shown as times too
	mu      sync.Mutex
	known   map[string]string // key or token -> its name
	tokens  map[string]int    // actor -> number of tokens that it has used
	users   map[string]string // token or owner -> the actor that first used it
	holders map[string]string // value of the lock -> the actor that holds the lock with this value
	scripts map[string]string // hash -> source
	ids     int               // number of UUIDs that first appeared in a reply
}

func newNames(start time.Time) *names {
	return &names{start: start, known: make(map[string]string), tokens: make(map[string]int),
		users: make(map[string]string), holders: make(map[string]string), scripts: make(map[string]string)}
}

// call sets the name of a key or a token.
func (n *names) call(arg, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[arg] = name
}

// text returns a command as typed into redis-cli, with names in place of keys and tokens.
func (n *names) text(actor string, cmd fault.Command) string {
	args, words := cmd.Args[1:], []string{cmd.Name()}
	if cmd.Script() && len(args) >= 2 {
		name := args[0][:min(8, len(args[0]))] // of a hash
		if source := n.source(cmd); source != "" {
			name = ScriptName(source)
		}
		words = append(words, name)
		args = args[2:] // the script and the number of keys
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, arg := range args {
		words = append(words, n.name(actor, arg))
	}
	return strings.Join(words, " ")
}

// value returns a reply with names in place of keys and tokens. The longest keys are replaced
// first, because a key may be part of another key.
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

// replaced replaces the known keys, in that order, and then all times and UUIDs in a text by names.
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
	// momentForm matches a Unix time in milliseconds or microseconds, and the id of a stream entry,
	// in which a number follows the time.
	momentForm = regexp.MustCompile(`\b\d{12,16}(-\d+)?\b`)
	// idForm matches a UUID. A UUID that no command has sent is named when it first appears in a reply.
	idForm = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
)

// name returns the name of an argument. A token is named after the actor that first used it, with a
// number.
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

// beside names a key that is a named key with a suffix, such as the queue of a lock: "lock:queue".
// A token in the suffix is replaced by its name, too.
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

// holds records that an actor's command has set the lock to value. The holder is the actor that
// first used that token: the command's sender may have handed the lock to it.
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

// used records which actor is the first to use an owner's name.
func (n *names) used(actor, owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.users[owner] == "" {
		n.users[owner] = actor
	}
}

// moment replaces a Unix time in milliseconds, also in the id of a stream entry, by the time since
// the cell began. In a schedule it also replaces a fencing token, which is a time in microseconds.
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

// ReplaceRandom replaces the random parts of an argument: the UUIDs in it, or the whole argument if
// it looks random.
func ReplaceRandom(arg string, by func(random string) string) string {
	if len(arg) >= 16 && !strings.Contains(arg, ":") && strings.ContainsFunc(arg, unicode.IsLetter) &&
		!idForm.MatchString(arg) {
		return by(arg)
	}
	return idForm.ReplaceAllStringFunc(arg, by)
}

// looksRandom reports whether an argument is a random token rather than a word or a number.
func looksRandom(arg string) bool {
	if strings.ContainsFunc(arg, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return true
	}
	return len(arg) >= 16 && strings.ContainsFunc(arg, unicode.IsLetter)
}

// source returns the source of the script that a command runs, or "" if its hash is unknown.
func (n *names) source(cmd fault.Command) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cmd.Is("EVALSHA", "EVALSHA_RO") {
		return n.scripts[strings.ToLower(cmd.Args[1])]
	}
	n.scripts[ScriptHash(cmd.Args[1])] = cmd.Args[1]
	return cmd.Args[1]
}

var redisCall = regexp.MustCompile(`(?i)redis\.p?call\(\s*["'](\w+)["']`)

// ScriptName returns the name that stands for a script in the text of a command: the first sentence
// of its comment, or, without a comment, the commands in it.
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

// firstSentence returns the first sentence of the comment at the top of a script. It returns the
// first line if the comment has no full stop, and "" if there is no comment.
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

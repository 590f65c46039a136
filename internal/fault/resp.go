package fault

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// errProtocol is wrapped by errors about malformed requests and replies.
var errProtocol = errors.New("fault: not the Redis protocol")

// The limits for a value that is read. The commands of this project are far smaller, so a larger
// value is an error.
const (
	maxBulk  = 16 << 20
	maxItems = 64 << 10
	maxDepth = 16
)

// A Value is one value as it was sent on the connection, with its line ends.
type Value []byte

// Push reports whether v is a push, which the server sends without a request.
func (v Value) Push() bool { return len(v) > 0 && v[0] == '>' }

// Err returns the text of an error reply, or "".
func (v Value) Err() string {
	if len(v) == 0 || v[0] != '-' {
		return ""
	}
	return strings.TrimRight(string(v[1:]), "\r\n")
}

// ErrorReply returns text, such as "BUSY …", as an error reply.
func ErrorReply(text string) Value { return Value("-" + text + "\r\n") }

// String returns the value as redis-cli would show it, but on one line.
func (v Value) String() string {
	p, err := parse(bufio.NewReader(bytes.NewReader(v)), 0)
	if err != nil {
		return "(cut off)"
	}
	return p.text
}

// readValue reads one value of RESP2 or RESP3, with the values nested in it.
func readValue(r *bufio.Reader) (Value, error) {
	p, err := parse(r, 0)
	return p.raw, err
}

type parsed struct {
	raw   Value
	text  string   // the result of String
	parts []parsed // the elements of an array or another aggregate, such as a map
}

// parse reads one value. It returns io.EOF only if the input ends before the value begins.
func parse(r *bufio.Reader, depth int) (p parsed, err error) {
	if depth > maxDepth {
		return p, fmt.Errorf("%w: values inside values inside values", errProtocol)
	}
	if p.raw, err = r.ReadBytes('\n'); err != nil {
		if depth > 0 || len(p.raw) > 0 {
			err = unexpected(err)
		}
		return parsed{}, err
	}
	if len(p.raw) < 3 || p.raw[len(p.raw)-2] != '\r' {
		return parsed{}, fmt.Errorf("%w: a line too short, or ended wrongly", errProtocol)
	}
	p.text = string(p.raw[1 : len(p.raw)-2])
	switch p.raw[0] {
	case '+', ':', '#', ',', '(':
	case '-':
		p.text = "ERR: " + p.text
	case '_':
		p.text = "nil"
	case '$', '=', '!':
		err = p.bulk(r)
	case '*', '~', '>', '%', '|':
		err = p.aggregate(r, depth)
	default:
		err = fmt.Errorf("%w: a value begins with %q", errProtocol, p.raw[0])
	}
	return p, err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// length returns the length in the first line, or -1 for a nil value.
func (p *parsed) length(most int) (int, error) {
	n, err := strconv.Atoi(p.text)
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("%w: a length of %q", errProtocol, p.text)
	}
	if n < 0 {
		p.text = "nil"
	}
	return n, nil
}

func (p *parsed) bulk(r *bufio.Reader) error {
	n, err := p.length(maxBulk)
	if err != nil || n < 0 {
		return err
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(r, body); err != nil {
		return unexpected(err)
	}
	if string(body[n:]) != "\r\n" {
		return fmt.Errorf("%w: a string is longer than it says", errProtocol)
	}
	p.raw, p.text = append(p.raw, body...), string(body[:n])
	return nil
}

func (p *parsed) aggregate(r *bufio.Reader, depth int) error {
	n, err := p.length(maxItems)
	if err != nil || n < 0 {
		return err
	}
	switch p.raw[0] {
	case '%':
		n *= 2
	case '|':
		n = n*2 + 1 // attributes come before the value that they belong to
	}
	p.parts = make([]parsed, n)
	texts := make([]string, n)
	for i := range n {
		part, err := parse(r, depth+1)
		if err != nil {
			return err
		}
		p.raw, p.parts[i], texts[i] = append(p.raw, part.raw...), part, part.text
	}
	p.text = "[" + strings.Join(texts, " ") + "]"
	return nil
}

// A Command is a client's request.
type Command struct {
	Raw  Value
	Args []string // the first argument is the name, as the client wrote it
}

// readCommand reads one command: an array of strings.
func readCommand(r *bufio.Reader) (Command, error) {
	p, err := parse(r, 0)
	if err != nil {
		return Command{}, err
	}
	if p.raw[0] != '*' || len(p.parts) == 0 {
		return Command{}, fmt.Errorf("%w: a command is an array with a name", errProtocol)
	}
	c := Command{Raw: p.raw, Args: make([]string, 0, len(p.parts))}
	for _, part := range p.parts {
		if part.raw[0] != '$' || part.raw[1] == '-' {
			return Command{}, fmt.Errorf("%w: a command's argument is no string", errProtocol)
		}
		c.Args = append(c.Args, part.text)
	}
	return c, nil
}

// NewCommand returns the command with these arguments, encoded as a client would send it.
func NewCommand(args ...string) Command {
	raw := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		raw = fmt.Appendf(raw, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return Command{Raw: raw, Args: args}
}

// Name returns the command's name in capitals.
func (c Command) Name() string { return strings.ToUpper(c.Args[0]) }

// Is reports whether the command has one of these names, which must be in capitals.
func (c Command) Is(names ...string) bool { return slices.Contains(names, c.Name()) }

// Script reports whether the command runs a Lua script.
func (c Command) Script() bool { return c.Is("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO") }

// Blocks reports whether the server may hold the command back until another client adds an element.
func (c Command) Blocks() bool {
	return c.Is("BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP") ||
		c.Is("XREAD", "XREADGROUP") && slices.ContainsFunc(c.Args,
			func(arg string) bool { return strings.EqualFold(arg, "BLOCK") })
}

// Takes returns the keys from which a blocking command pops an element.
func (c Command) Takes() []string {
	last := len(c.Args) - 1 // index of the timeout
	if c.Is("BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX") && last > 1 {
		return c.Args[1:last]
	}
	if c.Is("BLMOVE", "BRPOPLPUSH") && last > 1 {
		return c.Args[1:2]
	}
	return nil
}

// SetUp reports whether the command only prepares a connection. Such a command may contain a
// password, so it must not be shown.
func (c Command) SetUp() bool {
	return c.Is("HELLO", "AUTH", "CLIENT", "SELECT", "READONLY", "PING", "QUIT", "COMMAND")
}

// Mentions reports whether one of the arguments is arg.
func (c Command) Mentions(arg string) bool { return slices.Contains(c.Args[1:], arg) }

package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Command is a client's request.
type Command struct {
	Raw  Value
	Args []string // the name first, as the client wrote it
}

// ReadCommand reads one command: an array of strings.
func ReadCommand(r *bufio.Reader) (Command, error) {
	v, err := ReadValue(r)
	if err != nil {
		return Command{}, err
	}
	args, err := v.strings()
	if err != nil {
		return Command{}, err
	}
	return Command{Raw: v, Args: args}, nil
}

// NewCommand returns a command as a client would send it.
func NewCommand(args ...string) Command {
	raw := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		raw = fmt.Appendf(raw, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return Command{Raw: raw, Args: args}
}

// Name returns the command's name in capitals.
func (c Command) Name() string { return strings.ToUpper(c.Args[0]) }

// Is reports whether the command has one of the names, given in capitals.
func (c Command) Is(names ...string) bool { return slices.Contains(names, c.Name()) }

// Script reports whether the command runs a Lua script.
func (c Command) Script() bool { return c.Is("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO") }

// Blocks reports whether the command may wait at the server for what others do.
func (c Command) Blocks() bool {
	return c.Is("BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP") ||
		c.Is("XREAD", "XREADGROUP") && slices.ContainsFunc(c.Args, func(arg string) bool { return strings.EqualFold(arg, "BLOCK") })
}

// Takes returns the keys from which a command that waits at the server takes what
// it waits for.
func (c Command) Takes() []string {
	last := len(c.Args) - 1 // how long it waits
	if c.Is("BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX") && last > 1 {
		return c.Args[1:last]
	}
	if c.Is("BLMOVE", "BRPOPLPUSH") && last > 1 {
		return c.Args[1:2]
	}
	return nil
}

// SetUp reports whether the command prepares a connection, which is the
// client's business. It may carry a password, and so is not to be shown.
func (c Command) SetUp() bool {
	return c.Is("HELLO", "AUTH", "CLIENT", "SELECT", "READONLY", "PING", "QUIT", "COMMAND")
}

// Mentions reports whether one of the arguments is arg.
func (c Command) Mentions(arg string) bool { return slices.Contains(c.Args[1:], arg) }

// strings parses an array of strings.
func (v Value) strings() ([]string, error) {
	head, rest, _ := bytes.Cut(v, []byte("\r\n"))
	if len(head) == 0 || head[0] != '*' {
		return nil, fmt.Errorf("%w: a command is no array", ErrProtocol)
	}
	var args []string
	for len(rest) > 0 {
		size, body, ok := bytes.Cut(rest, []byte("\r\n"))
		if !ok || size[0] != '$' {
			return nil, fmt.Errorf("%w: a command's argument is no string", ErrProtocol)
		}
		n, err := strconv.Atoi(string(size[1:]))
		if err != nil || n < 0 || n+2 > len(body) {
			return nil, fmt.Errorf("%w: a command's argument is no string", ErrProtocol)
		}
		args = append(args, string(body[:n]))
		rest = body[n+2:]
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("%w: a command with no name", ErrProtocol)
	}
	return args, nil
}

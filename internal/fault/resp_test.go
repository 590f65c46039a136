package fault

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func reader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

func TestReadValue(t *testing.T) {
	for text, shown := range map[string]string{
		"+OK\r\n":                       "OK",
		"-ERR no\r\n":                   "ERR: ERR no",
		":42\r\n":                       "42",
		"$5\r\nhello\r\n":               "hello",
		"$0\r\n\r\n":                    "",
		"$-1\r\n":                       "nil",
		"_\r\n":                         "nil",
		"*-1\r\n":                       "nil",
		"*0\r\n":                        "[]",
		"*2\r\n$1\r\na\r\n*1\r\n:1\r\n": "[a [1]]",
		"%1\r\n+k\r\n:1\r\n":            "[k 1]",
		"~1\r\n#t\r\n":                  "[t]",
		"=5\r\ntxt:a\r\n":               "txt:a",
		">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n": "[invalidate [k]]",
	} {
		r := reader(text + "+next\r\n")
		v, err := readValue(r)
		if err != nil || string(v) != text || v.String() != shown {
			t.Errorf("%q: read %q, shown as %q, want %q, %v", text, v, v.String(), shown, err)
		}
		if next, err := readValue(r); err != nil || string(next) != "+next\r\n" {
			t.Errorf("%q: then read %q, %v", text, next, err)
		}
	}
}

func TestReadValueRefuses(t *testing.T) {
	for text, want := range map[string]error{
		"x\r\n": errProtocol, "\r\n": errProtocol, "+OK\n": errProtocol, "$x\r\n": errProtocol,
		"$5\r\nhello!!": errProtocol,
		"$-2\r\n":       errProtocol, "*999999999\r\n": errProtocol, "$99999999999\r\n": errProtocol,
		strings.Repeat("*1\r\n", 100): errProtocol,
		"+OK":                         io.ErrUnexpectedEOF, "$5\r\nhel": io.ErrUnexpectedEOF,
		"*2\r\n:1\r\n": io.ErrUnexpectedEOF, "": io.EOF,
	} {
		if v, err := readValue(reader(text)); !errors.Is(err, want) {
			t.Errorf("%.20q: read %.20q, %v", text, v, err)
		}
	}
}

func TestReadCommand(t *testing.T) {
	cmd, err := readCommand(reader("*3\r\n$3\r\nset\r\n$1\r\nk\r\n$2\r\n\r\n\r\n"))
	if err != nil || !slices.Equal(cmd.Args, []string{"set", "k", "\r\n"}) {
		t.Fatalf("%q, %v", cmd.Args, err)
	}
	if !cmd.Is("GET", "SET") || !cmd.Mentions("k") || cmd.Mentions("set") || cmd.Script() || cmd.SetUp() {
		t.Errorf("%q is not taken for what it is", cmd.Args)
	}
	for _, text := range []string{"PING\r\n", "*0\r\n", "*1\r\n:1\r\n", "*-1\r\n", "*1\r\n$-1\r\n"} {
		if _, err := readCommand(reader(text)); !errors.Is(err, errProtocol) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestBlockingCommands(t *testing.T) {
	for text, takes := range map[string]string{
		"blpop a b 0": "a b", "bzpopmin a 0": "a", "BLMOVE from to LEFT RIGHT 0": "from",
		"brpoplpush from to 0":      "from",
		"XREAD block 0 STREAMS s $": "", "BLPOP": "",
	} {
		cmd := NewCommand(strings.Fields(text)...)
		if got := strings.Join(cmd.Takes(), " "); got != takes || !cmd.Blocks() {
			t.Errorf("%s takes from %q, want %q; it blocks: %v", text, got, takes, cmd.Blocks())
		}
	}
	for _, text := range []string{"xread STREAMS s 0", "lpop k", "set block 1"} {
		if cmd := NewCommand(strings.Fields(text)...); cmd.Blocks() || cmd.Takes() != nil {
			t.Errorf("%s blocks", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Add([]byte("*1\r\n$-1\r\n"))
	f.Add([]byte("|1\r\n+a\r\n+b\r\n%1\r\n:1\r\n_\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := readValue(bufio.NewReader(bytes.NewReader(text)))
		if err == nil && !bytes.HasPrefix(text, v) {
			t.Errorf("%q read as %q", text, v)
		}
		cmd, err := readCommand(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		back, err := readCommand(bufio.NewReader(bytes.NewReader(NewCommand(cmd.Args...).Raw)))
		if err != nil || !slices.Equal(back.Args, cmd.Args) {
			t.Errorf("%q came back as %q, %v", cmd.Args, back.Args, err)
		}
	})
}

// A read returns EOF if the other end of the pipe is closed, whether a read deadline was set before or
// after that.
func TestPipeTellsItsEndByTheRead(t *testing.T) {
	for _, deadlineFirst := range []bool{true, false} {
		mine, theirs := Pipe()
		if !deadlineFirst {
			theirs.Close()
		}
		if err := mine.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("deadline first %v: %v", deadlineFirst, err)
		}
		theirs.Close()
		if _, err := mine.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("deadline first %v: the read says %v, want EOF", deadlineFirst, err)
		}
		mine.Close()
	}
}

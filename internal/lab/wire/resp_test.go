package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
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
		v, err := ReadValue(r)
		if err != nil || string(v) != text {
			t.Errorf("%q: read %q, %v", text, v, err)
			continue
		}
		if v.String() != shown {
			t.Errorf("%q: shown as %q, want %q", text, v.String(), shown)
		}
		if next, err := ReadValue(r); err != nil || string(next) != "+next\r\n" {
			t.Errorf("%q: then read %q, %v", text, next, err)
		}
	}
}

func TestReadValueRefuses(t *testing.T) {
	for _, text := range []string{
		"x\r\n", "\r\n", "+OK\n", "$x\r\n", "$5\r\nhello!!", "$-2\r\n", "*999999999\r\n", "$99999999999\r\n",
		strings.Repeat("*1\r\n", 100), "+" + strings.Repeat("a", 1<<20),
	} {
		if v, err := ReadValue(reader(text)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%.20q: read %.20q, %v", text, v, err)
		}
	}
	for _, text := range []string{"+OK", "$5\r\nhel", "*2\r\n:1\r\n"} {
		if _, err := ReadValue(reader(text)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadValue(reader("")); !errors.Is(err, io.EOF) {
		t.Errorf("an end where one may be: %v", err)
	}
}

func TestReadCommand(t *testing.T) {
	cmd, err := ReadCommand(reader("*3\r\n$3\r\nset\r\n$1\r\nk\r\n$2\r\n\r\n\r\n"))
	if err != nil || !slices.Equal(cmd.Args, []string{"set", "k", "\r\n"}) {
		t.Fatalf("%q, %v", cmd.Args, err)
	}
	if !cmd.Is("GET", "SET") || !cmd.Mentions("k") || cmd.Mentions("set") || cmd.Script() || cmd.SetUp() {
		t.Errorf("%q is not taken for what it is", cmd.Args)
	}
	for text, blocks := range map[string]bool{"blpop k 1": true, "XREAD block 0 STREAMS s $": true, "xread STREAMS s 0": false, "lpop k": false, "set block 1": false} {
		if got := NewCommand(strings.Fields(text)...).Blocks(); got != blocks {
			t.Errorf("%s: blocks %v", text, got)
		}
	}
	for _, text := range []string{"PING\r\n", "*0\r\n", "*1\r\n:1\r\n", "*-1\r\n", "*1\r\n$-1\r\n"} {
		if _, err := ReadCommand(reader(text)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzReadCommand(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Add([]byte("*1\r\n$-1\r\n"))
	f.Add([]byte("%1\r\n+a\r\n:1\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cmd, err := ReadCommand(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		again := NewCommand(cmd.Args...)
		back, err := ReadCommand(bufio.NewReader(bytes.NewReader(again.Raw)))
		if err != nil || !slices.Equal(back.Args, cmd.Args) {
			t.Errorf("%q came back as %q, %v", cmd.Args, back.Args, err)
		}
	})
}

func FuzzReadValue(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n%1\r\n:1\r\n_\r\n"))
	f.Add([]byte("|1\r\n+a\r\n+b\r\n+c\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ReadValue(bufio.NewReader(bytes.NewReader(text)))
		if err == nil && !bytes.HasPrefix(text, v) {
			t.Errorf("%q read as %q", text, v)
		}
		_ = v.String()
	})
}

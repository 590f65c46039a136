// Package wire is a relay between a Redis client and its server. It reads the client's
// commands one by one, lets a Handler decide what happens to each, and returns the
// replies. It works with every client library.
package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrProtocol is wrapped by errors about malformed requests and replies.
var ErrProtocol = errors.New("wire: not the Redis protocol")

// Bounds of what is read. A lock needs little; what is longer is a mistake.
const (
	maxLine  = 64 << 10
	maxBulk  = 16 << 20
	maxItems = 64 << 10
	maxDepth = 16
)

// A Value is one value as it came over the wire, with its line ends.
type Value []byte

// Push reports whether v was sent by the server unasked.
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

// ReadValue reads one value of RESP2 or RESP3, with all that is inside it.
func ReadValue(r *bufio.Reader) (Value, error) {
	var v Value
	if err := v.read(r, 0); err != nil {
		return nil, err
	}
	return v, nil
}

// read appends one value to v.
func (v *Value) read(r *bufio.Reader, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: values inside values inside values", ErrProtocol)
	}
	line, err := readLine(r)
	if err != nil {
		return err
	}
	*v = append(*v, line...)
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return nil
	case '$', '=', '!':
		return v.readBulk(r, line)
	case '*', '~', '>', '%', '|':
		return v.readItems(r, line, depth)
	}
	return fmt.Errorf("%w: a value begins with %q", ErrProtocol, line[0])
}

func (v *Value) readBulk(r *bufio.Reader, line []byte) error {
	n, err := length(line, maxBulk)
	if err != nil || n < 0 {
		return err
	}
	start := len(*v)
	*v = append(*v, make([]byte, n+2)...)
	if _, err := io.ReadFull(r, (*v)[start:]); err != nil {
		return unexpected(err)
	}
	if string((*v)[start+n:]) != "\r\n" {
		return fmt.Errorf("%w: a string is longer than it says", ErrProtocol)
	}
	return nil
}

func (v *Value) readItems(r *bufio.Reader, line []byte, depth int) error {
	n, err := length(line, maxItems)
	if err != nil {
		return err
	}
	switch line[0] {
	case '%':
		n *= 2
	case '|':
		n = n*2 + 1 // attributes come before the value that they belong to
	}
	for range n {
		if err := v.read(r, depth+1); err != nil {
			return unexpected(err)
		}
	}
	return nil
}

// readLine reads up to and with a line end. It returns io.EOF only where no
// value has begun.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxLine:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: a line without end", ErrProtocol)
		case err != nil && len(line) > 0:
			return nil, unexpected(err)
		case err != nil:
			return nil, err
		case len(line) < 3 || line[len(line)-2] != '\r':
			return nil, fmt.Errorf("%w: a line too short, or ended wrongly", ErrProtocol)
		}
		return line, nil
	}
}

// length is the number in a line such as "$5\r\n"; -1 stands for nothing.
func length(line []byte, most int) (int, error) {
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("%w: a length of %q", ErrProtocol, line[1:len(line)-2])
	}
	return n, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

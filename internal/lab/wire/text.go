package wire

import (
	"bufio"
	"bytes"
	"strings"
)

// String shows a value as redis-cli would, on one line.
func (v Value) String() string {
	r := bufio.NewReader(bytes.NewReader(v))
	text, err := show(r)
	if err != nil {
		return "(cut off)"
	}
	return text
}

func show(r *bufio.Reader) (string, error) {
	line, err := readLine(r)
	if err != nil {
		return "", err
	}
	body := string(line[1 : len(line)-2])
	switch line[0] {
	case '+', ':', ',', '(', '#':
		return body, nil
	case '-':
		return "ERR: " + body, nil
	case '_':
		return "nil", nil
	case '$', '=', '!':
		return showBulk(r, line)
	}
	return showItems(r, line)
}

func showBulk(r *bufio.Reader, line []byte) (string, error) {
	n, err := length(line, maxBulk)
	if err != nil {
		return "", err
	}
	if n < 0 {
		return "nil", nil
	}
	text := make([]byte, n+2)
	for i := range text {
		if text[i], err = r.ReadByte(); err != nil {
			return "", err
		}
	}
	return string(text[:n]), nil
}

func showItems(r *bufio.Reader, line []byte) (string, error) {
	n, err := length(line, maxItems)
	if err != nil {
		return "", err
	}
	if n < 0 {
		return "nil", nil
	}
	if line[0] == '%' || line[0] == '|' {
		n *= 2
	}
	items := make([]string, n)
	for i := range items {
		if items[i], err = show(r); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(items, " ") + "]", nil
}

// Package message has sentences that a program writes in English and a page shows in other
// languages. A translation is found by the format of a sentence, as in the message catalogs of
// golang.org/x/text/message, and not by the finished sentence.
package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Message is a sentence in English, together with the format and the arguments that it was made of.
// The zero Message is an empty sentence.
type Message struct {
	english string
	format  string
	args    []any // strings, and the Messages among the arguments
}

// Newf makes a sentence, as fmt.Sprintf does. The format uses each argument once, in order. An
// argument is translated with the sentence if it is a Message, or an error that has one (see Of).
func Newf(format string, args ...any) Message {
	m := Message{english: fmt.Sprintf(format, args...), format: format}
	for _, verb, rest := cut(format); verb != ""; _, verb, rest = cut(rest) {
		if verb == "%%" || len(m.args) == len(args) {
			continue
		}
		switch arg := args[len(m.args)].(type) {
		case Message:
			m.args = append(m.args, arg)
		case error:
			m.args = append(m.args, Of(arg))
		default:
			m.args = append(m.args, fmt.Sprintf(verb, arg))
		}
	}
	return m
}

// cut returns the text of a format before its first verb, the verb, and the rest. The verb, such as %d
// or %.1f, is "" if there is none. In a translation the number of the argument may precede its
// letter, as in %.1[2]f. It uses no regular expression, because each refusal of a sale makes a Message.
func cut(format string) (before, verb, rest string) {
	before, after, found := strings.Cut(format, "%")
	end := strings.IndexFunc(after, func(r rune) bool { return r >= 'a' && r <= 'z' || r == '%' })
	if !found || end < 0 {
		return format, "", ""
	}
	return before, "%" + after[:end+1], after[end+1:]
}

// Text makes a sentence without arguments.
func Text(english string) Message { return Message{english: english, format: english} }

// Join joins sentences with a format such as "%v, %v", and leaves out those that are empty.
func Join(format string, all ...Message) (joined Message) {
	for _, m := range all {
		switch {
		case m.english == "":
		case joined.english == "":
			joined = m
		default:
			joined = Newf(format, joined, m)
		}
	}
	return joined
}

// String returns the English sentence.
func (m Message) String() string { return m.english }

// IsZero reports whether the sentence has no arguments. Its English text is then enough to find the
// translation, and JSON leaves the Message out.
func (m Message) IsZero() bool { return len(m.args) == 0 }

// Translate returns the sentence in another language. Told returns the translation of a format, or
// the format itself if it has none.
func (m Message) Translate(told func(format string) string) string {
	if m.IsZero() {
		return told(m.english)
	}
	var text strings.Builder
	next := 0 // the index of the next argument
	for rest := told(m.format); ; {
		before, verb, after := cut(rest)
		text.WriteString(before)
		if rest = after; verb == "" {
			return text.String()
		}
		if verb == "%%" {
			text.WriteByte('%')
			continue
		}
		if _, number, found := strings.Cut(verb, "["); found {
			next, _ = strconv.Atoi(strings.Split(number, "]")[0])
			next-- // numbers begin with 1
		}
		switch arg := m.arg(next).(type) {
		case Message:
			text.WriteString(arg.Translate(told))
		case string:
			text.WriteString(arg)
		default:
			text.WriteString(verb)
		}
		next++
	}
}

// arg returns an argument, or nil if there is none with this index.
func (m Message) arg(i int) any {
	if i < 0 || i >= len(m.args) {
		return nil
	}
	return m.args[i]
}

// Map returns the sentence with the result of change for each of its arguments, or, if it has none,
// for its text.
func (m Message) Map(change func(text string) string) Message {
	if m.IsZero() {
		return Text(change(m.english))
	}
	args := make([]any, len(m.args))
	for i, arg := range m.args {
		if inner, ok := arg.(Message); ok {
			args[i] = inner.Map(change)
		} else {
			args[i] = change(arg.(string))
		}
	}
	m.args = args
	m.english = m.inEnglish()
	return m
}

// inEnglish puts the arguments into the format.
func (m Message) inEnglish() string { return m.Translate(func(format string) string { return format }) }

// MarshalJSON writes a list: the format, and then the arguments. A Message among the arguments is a
// list too.
func (m Message) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]any{m.format}, m.args...))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Message) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("a message without a format")
	}
	*m = Message{}
	if err := json.Unmarshal(list[0], &m.format); err != nil {
		return err
	}
	for _, text := range list[1:] {
		var arg string
		if text[0] != '[' {
			if err := json.Unmarshal(text, &arg); err != nil {
				return err
			}
			m.args = append(m.args, arg)
			continue
		}
		var inner Message
		if err := inner.UnmarshalJSON(text); err != nil {
			return err
		}
		m.args = append(m.args, inner)
	}
	m.english = m.format
	if len(m.args) > 0 {
		m.english = m.inEnglish()
	}
	return nil
}

// failure is an error from which Of makes a Message.
type failure struct {
	error
	format string
	args   []any
}

func (f *failure) Unwrap() error { return f.error }

// Errorf is like fmt.Errorf, but Of returns a Message for the error that can be translated. In the
// Message's format, %s stands for %w.
func Errorf(format string, args ...any) error {
	return &failure{fmt.Errorf(format, args...), strings.ReplaceAll(format, "%w", "%s"), args}
}

// Of returns the text of an error as a Message. It has the error's format and arguments if Errorf
// made the error, and not another that wraps it, except for errors.Join with no second error.
func Of(err error) Message {
	switch e := err.(type) {
	case *failure:
		return Newf(e.format, e.args...)
	case interface{ Unwrap() []error }:
		if all := e.Unwrap(); len(all) == 1 && all[0].Error() == err.Error() {
			return Of(all[0])
		}
	}
	return Text(err.Error())
}

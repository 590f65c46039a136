package message_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"oversell/internal/message"
)

var chinese = map[string]string{
	"%s has %d of %d units": "%[3]d 件里 %[1]s 有 %[2]d 件",
	"sold out":              "售罄",
	"%v; %v":                "%v；%v",
	"A bought nothing: %s":  "A 什么也没买到：%s",
	"%.0f%% of %s":          "%[2]s 的 %.0[1]f%%",
}

func told(format string) string {
	if text, ok := chinese[format]; ok {
		return text
	}
	return format
}

var errSoldOut = errors.New("sold out")

// A sentence is translated by its format. Its arguments are translated only if they are sentences.
func TestTranslate(t *testing.T) {
	for english, c := range map[string]struct {
		said message.Message
		want string
	}{
		"B has 1 of 2 units": {message.Newf("%s has %d of %d units", "B", 1, 2), "2 件里 B 有 1 件"},
		"sold out":           {message.Text("sold out"), "售罄"},
		"A bought nothing: sold out": {
			message.Newf("A bought nothing: %s", message.Text("sold out")), "A 什么也没买到：售罄",
		},
		"A bought nothing: no Redis": {
			message.Newf("A bought nothing: %s", errors.New("no Redis")), "A 什么也没买到：no Redis",
		},
		"sold out has 1 of 1 units": {message.Newf("%s has %d of %d units", "sold out", 1, 1), "1 件里 sold out 有 1 件"},
		"33% of the buyers":         {message.Newf("%.0f%% of %s", 33.3, "the buyers"), "the buyers 的 33%"},
		"%s":                        {message.Text("%s"), "%s"},
		"nobody knows B":            {message.Newf("nobody knows %s", "B"), "nobody knows B"},
		"sold out; x; y": {
			message.Join("%v; %v", message.Of(errSoldOut), message.Message{}, message.Text("x"), message.Text("y")),
			"售罄；x；y",
		},
	} {
		if got := c.said.String(); got != english {
			t.Errorf("%q in English is %q", english, got)
		}
		if got := c.said.Translate(told); got != c.want {
			t.Errorf("%q is told as %q, want %q", english, got, c.want)
		}
		text, err := json.Marshal(c.said)
		var read message.Message
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if err != nil || read.String() != english || read.Translate(told) != c.want {
			t.Errorf("%s is read as %q, told as %q, %v", text, read, read.Translate(told), err)
		}
	}
}

// Map changes the arguments of a sentence, and not its format.
func TestMap(t *testing.T) {
	key := func(text string) string { return strings.ReplaceAll(text, "oversell:x", "stock") }
	said := message.Newf("A bought nothing: %s", message.Newf("%s has %d of %d units", "oversell:x", 0, 1)).Map(key)
	english, chinese := "A bought nothing: stock has 0 of 1 units", "A 什么也没买到：1 件里 stock 有 0 件"
	if said.String() != english || said.Translate(told) != chinese {
		t.Errorf("%q is told as %q", said, said.Translate(told))
	}
	if got := message.Text("no oversell:x").Map(key).String(); got != "no stock" {
		t.Errorf("%q", got)
	}
}

// An error keeps what it wraps, and what it says can be translated.
func TestErrorf(t *testing.T) {
	err := message.Errorf("A bought nothing: %w", errSoldOut)
	if !errors.Is(err, errSoldOut) || err.Error() != "A bought nothing: sold out" {
		t.Errorf("%v", err)
	}
	if got := message.Of(err).Translate(told); got != "A 什么也没买到：售罄" {
		t.Errorf("it is told as %q", got)
	}
	if got := message.Of(errors.Join(err, nil)).Translate(told); got != "A 什么也没买到：售罄" {
		t.Errorf("joined with nothing, it is told as %q", got)
	}
	wrapped := fmt.Errorf("playing: %w", err)
	if got := message.Of(wrapped).Translate(told); got != wrapped.Error() {
		t.Errorf("wrapped, it is told as %q", got)
	}
}

// JSON has the arguments of a sentence in a list, and nothing if there are none.
func TestJSON(t *testing.T) {
	for want, said := range map[string]message.Message{
		`{}`:                                message.Text("sold out"),
		`{"m":["A is told: %s","x"]}`:       message.Newf("A is told: %s", "x"),
		`{"m":["%s: %d",["sold out"],"3"]}`: message.Newf("%s: %d", message.Text("sold out"), 3),
	} {
		got, err := json.Marshal(struct {
			M message.Message `json:"m,omitzero"`
		}{said})
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	var none message.Message
	if err := json.Unmarshal([]byte("null"), &none); err != nil || none.String() != "" {
		t.Errorf("null is %q, %v", none, err)
	}
	for _, text := range []string{`[]`, `"x"`, `[1]`, `["%s",1]`, `["%s",[]]`} {
		if err := json.Unmarshal([]byte(text), new(message.Message)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

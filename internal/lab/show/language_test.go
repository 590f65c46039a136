package show_test

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
	"oversell/internal/lab/show"
	"oversell/internal/page/texts"
	"oversell/internal/present"
)

// In Chinese, anomalies have titles beside their names. The columns are aligned, although a Chinese
// character is two columns wide.
func TestChinese(t *testing.T) {
	text.EnableColors()
	r := report()
	r.Manifest.Servers = []string{"etcd 3.6", "etcd in real time, with leases of 2s"}
	style := show.Style{Style: present.Style{Language: texts.Listen(texts.In)}}
	c := find(t, r, "check-then-delete", "v3_uuid")
	golden(t, "matrix-zh", matrix(t, r, style))
	golden(t, "timeline-zh", timeline(t, r, c, style))
}

// The reports are completely translated. Only the texts of the fixture stay in English, because it has no
// real anomalies.
func TestReportsSayEverythingInChinese(t *testing.T) {
	r := report()
	r.Holds, r.Behind = new(report()), new(report())
	var own strings.Builder // the texts of the fixture, and column headings
	own.WriteString(strings.Join(r.Manifest.Strategies, "\n") + "\nrsync\nrlock\nrueid\n")
	for _, a := range r.Anomalies {
		own.WriteString(a.Sentence + "\n" + a.Sequence + "\n" + a.Source + "\n")
	}
	for _, c := range r.Cells {
		own.WriteString(c.Note + "\n")
		for _, e := range c.Trace {
			own.WriteString(e.Actor + ": " + e.Text + "\n" + e.Reply + "\n")
		}
	}
	l := texts.Listen(texts.In)
	style := show.Style{Style: present.Style{Language: l}}
	var b strings.Builder
	for _, err := range []error{
		show.HTML(&b, r, style), show.Matrix(&b, r, style),
		show.Matrix(&b, lab.Report{Manifest: lab.Manifest{Redis: "miniredis 2.40.0 (embedded)"}}, style),
		show.Timeline(&b, r, r.Cells[0], style), show.Schedule(&b, lab.State{Strategy: "none"}, style),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range r.Cells {
		if err := show.Timeline(&b, r, c, style); err != nil {
			t.Fatal(err)
		}
	}
	for _, said := range l.Untold {
		if !strings.Contains(own.String(), said) {
			t.Errorf("not translated: %s", said)
		}
	}
}

// Chinese text may be wrapped between any two characters, but no line begins with closing punctuation.
func TestChineseLinesEndBetweenLetters(t *testing.T) {
	r := report()
	r.Cells[0].Note = strings.Repeat("锁还在，", 40) + "（完）。"
	out := timeline(t, r, r.Cells[0], show.Style{})
	if !strings.Contains(out, "（完）。") {
		t.Errorf("the end is missing in\n%s", out)
	}
	for line := range strings.Lines(out) {
		if strings.ContainsAny(string([]rune(strings.TrimSpace(line) + " ")[:1]), "，。）") {
			t.Errorf("a line begins with a mark: %s", line)
		}
	}
}

package show

import (
	"encoding/json"
	"math"

	"oversell/internal/lab"
)

// maxStories is the maximum size in bytes of all timelines in the page.
const maxStories = 6 << 20

// rowLimits are limits on the rows of a timeline in the page. The first limit
// with which all timelines fit is used.
var rowLimits = []int{400, 200, 120, 80, 50, 30, 20, 10}

// data is what the page's script draws from. Numbers are already formatted, so
// that the page and the terminal show the same.
type data struct {
	Anomalies map[string]dataAnomaly `json:"anomalies"`
	Cells     []dataCell             `json:"cells"`
}

type dataAnomaly struct {
	Sentence string `json:"sentence"`
	Sequence string `json:"sequence"`
	Source   string `json:"source"`
}

// dataCell is a cell and its story.
type dataCell struct {
	Anomaly  string    `json:"anomaly"`
	Strategy string    `json:"strategy"`
	Class    string    `json:"class"`
	Verdict  string    `json:"verdict"`
	Note     string    `json:"note"`
	Link     string    `json:"link"`
	Command  string    `json:"command"`
	Actors   []string  `json:"actors"`
	Unit     string    `json:"unit"`
	Lock     bool      `json:"lock"` // Redis was seen to know about a lock
	Rows     []dataRow `json:"rows"`
}

// dataRow is a row of a story. Most fields are empty in most rows.
type dataRow struct {
	At      float64  `json:"at"`
	Time    string   `json:"time"`
	Actor   int      `json:"actor"` // or -1
	Kind    lab.Kind `json:"kind"`
	Text    string   `json:"text"`
	Short   string   `json:"short,omitempty"` // of the text, if that is long
	Reply   string   `json:"reply,omitempty"`
	Waits   bool     `json:"waits,omitempty"`
	Answers bool     `json:"answers,omitempty"`
	Again   string   `json:"again,omitempty"` // how often it was repeated, and until when
	Holder  string   `json:"holder,omitempty"`
	Holding int      `json:"holding"` // an actor, or -1
	TTL     *float64 `json:"ttl,omitempty"`
	Left    string   `json:"left,omitempty"` // the formatted ttl
	Believe []int    `json:"believe,omitempty"`

	Keys  []dataKey `json:"keys,omitempty"`  // in Redis, if they changed since the previous row
	Blind bool      `json:"blind,omitempty"` // the state of Redis was no longer recorded
}

// dataKey is a key at the moment of its row.
type dataKey struct {
	lab.Key
	Gone bool `json:"gone,omitempty"` // the key no longer exists
}

func newData(reports ...lab.Report) data {
	d := data{Anomalies: make(map[string]dataAnomaly)}
	var stories []story
	for _, r := range reports {
		for _, a := range newGrid(r).anomalies {
			d.Anomalies[a.Name] = dataAnomaly{Sentence: a.Sentence, Sequence: a.Sequence, Source: a.Source}
		}
		for _, c := range r.Cells {
			stories = append(stories, tell(c))
		}
	}
	for _, limit := range rowLimits {
		d.Cells = make([]dataCell, 0, len(stories))
		for _, r := range reports {
			for _, c := range r.Cells {
				d.Cells = append(d.Cells, newDataCell(r.Manifest, c, stories[len(d.Cells)].shorten(limit)))
			}
		}
		if size(d.Cells) <= maxStories {
			break
		}
	}
	return d
}

func size(cells []dataCell) int {
	b, err := json.Marshal(cells)
	if err != nil {
		return 0 // the template marshals it again, and reports it
	}
	return len(b)
}

func newDataCell(m lab.Manifest, c lab.Cell, s story) dataCell {
	v := newViewCell(c)
	d := dataCell{
		Anomaly: c.Anomaly, Strategy: c.Strategy, Class: v.Class, Verdict: v.Verdict, Note: c.Note, Link: v.Link,
		Command: command(m, c.Anomaly, c.Strategy),
		Actors:  s.actors, Unit: s.clock.unit, Lock: s.lock, Rows: []dataRow{},
	}
	for _, r := range s.rows {
		row := newDataRow(r, s.clock)
		if r.kind == lab.Break {
			row.Text = s.culprit(r) + r.text
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

func newDataRow(r row, c clock) dataRow {
	d := dataRow{
		At: micro(r.at), Time: c.format(r.at), Actor: r.actor, Kind: r.kind, Text: r.text, Reply: r.reply,
		Waits: r.waits, Answers: r.answers, Again: r.again(c),
		Holder: r.holder, Holding: r.holding, Believe: r.believe, Blind: r.blind,
	}
	for _, k := range r.keys {
		if k.TTL != nil {
			ttl := micro(*k.TTL)
			k.TTL = &ttl
		}
		d.Keys = append(d.Keys, dataKey{k, k.Type == lab.Gone})
	}
	if short := abridge(r.text); short != r.text {
		d.Short = short
	}
	switch {
	case r.ttl != nil:
		ttl := micro(*r.ttl)
		d.TTL, d.Left = &ttl, c.format(ttl)
	case r.held():
		d.Left = noEnd
	}
	return d
}

// micro rounds milliseconds to the precision of a clock, which is also shorter.
func micro(ms float64) float64 { return math.Round(ms*1000) / 1000 }

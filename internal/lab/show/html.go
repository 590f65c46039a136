package show

import (
	"embed"
	"io"
	"math"
	"net/url"
	"strings"

	"oversell/internal/lab"
	"oversell/internal/present"
)

// mostRows limits the rows of a timeline in the page.
const mostRows = 400

// data is what the page's script draws from. Numbers are already formatted, so
// that the page and the terminal show the same.
type data struct {
	Anomalies map[string]dataAnomaly `json:"anomalies"`
	Cells     []dataCell             `json:"cells"`
	Words     map[string]string      `json:"words,omitempty"` // what the scripts say, unless it is English
}

type dataAnomaly struct {
	Title    string `json:"title,omitempty"` // beside its name
	Sentence string `json:"sentence"`
	Sequence string `json:"sequence"`
	Source   string `json:"source"`
}

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
	Lock     bool      `json:"lock"`           // Redis was seen to know about a lock
	Free     string    `json:"free,omitempty"` // what a lock is that nobody holds, unless it is English
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
	Arrives int      `json:"arrives,omitempty"` // the row in which what is held up here arrives; 0: nothing is
	Again   string   `json:"again,omitempty"`   // how often it was repeated, and until when
	Holder  string   `json:"holder,omitempty"`
	Holding int      `json:"holding"` // an actor, or -1
	TTL     *float64 `json:"ttl,omitempty"`
	Left    string   `json:"left,omitempty"` // the formatted ttl
	Believe []int    `json:"believe,omitempty"`

	Keys  []dataKey `json:"keys,omitempty"`  // in Redis, if they changed since the previous row
	Blind bool      `json:"blind,omitempty"` // the state of Redis was no longer recorded
}

type dataKey struct {
	lab.Key
	Gone bool `json:"gone,omitempty"` // the key no longer exists
}

func newData(style Style, reports ...lab.Report) data {
	d := data{Anomalies: make(map[string]dataAnomaly), Cells: []dataCell{}}
	for _, r := range reports {
		for _, a := range newGrid(r).anomalies {
			a = style.about(a)
			d.Anomalies[a.Name] = dataAnomaly{Title: style.title(a.Name), Sentence: a.Sentence, Sequence: a.Sequence,
				Source: a.Source}
		}
		for _, c := range r.Cells {
			d.Cells = append(d.Cells, newDataCell(style, r.Manifest, c))
		}
	}
	return d
}

func newDataCell(style Style, m lab.Manifest, c lab.Cell) dataCell {
	s := tell(c).shorten(mostRows)
	v := style.newViewCell(m, c)
	d := dataCell{
		Anomaly: c.Anomaly, Strategy: c.Strategy, Class: v.Class, Verdict: v.Verdict, Note: v.Note, Link: v.Link,
		Command: command(m, c.Anomaly, c.Strategy),
		Actors:  s.actors, Unit: s.clock.unit, Lock: s.lock, Rows: []dataRow{},
	}
	if said := style.Say(free); said != free {
		d.Free = said
	}
	for _, r := range s.rows {
		row := newDataRow(r, s.clock)
		if r.kind == lab.Break {
			row.Text = s.culprit(r) + r.text
		}
		row.Arrives = arrival(s.rows, len(d.Rows))
		d.Rows = append(d.Rows, row.in(style))
	}
	return d
}

// in returns the row in a language, as the shop's page translates it (fetchStory).
func (d dataRow) in(style Style) dataRow {
	if style.Language == nil {
		return d
	}
	d.Text, d.Reply = style.row(d.Kind, d.Text, d.Reply)
	if d.Short != "" {
		d.Short, _ = style.row(d.Kind, d.Short, "")
	}
	d.Again, d.Left = style.Say(d.Again), style.Say(d.Left)
	return d
}

// heldUp begins the text of a fault that holds up a command, which follows.
const heldUp = "delayed on its way: "

// arrival returns the row in which the command that the i-th row sends or holds up reaches
// Redis, or its reply the actor, if that is a later one, and otherwise 0.
func arrival(rows []row, i int) int {
	from := rows[i]
	text, fault := strings.CutPrefix(from.text, heldUp)
	if !from.waits && !(fault && from.kind == lab.Fault) {
		return 0
	}
	for j, r := range rows[i+1:] {
		if r.kind == lab.Command && r.actor == from.actor && r.text == text && r.answers == from.waits {
			return i + 1 + j
		}
	}
	return 0
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

// view is the data of the page, except for its timelines.
type view struct {
	Title    string // "" for the first table of the page
	RanOn    string
	Counts   string
	Recorded string
	Columns  []viewColumn
	Width    int // columns, with that of the names
	Rows     []viewRow
	Wrong    []viewCell // outcomes that differ from the record
}

type viewColumn struct {
	Stage, Rest   string // its name, which may be broken in between
	Breaks, Asked int
	NewGroup      bool // the group of stages begins or ends here
}

type viewRow struct {
	lab.Anomaly
	Title   string // beside its name
	Heading string // of the group that begins here, or ""
	Cells   []viewCell
}

type viewCell struct {
	lab.Cell
	Ran      bool
	NewGroup bool
	Class    string
	Mark     string
	Link     string // opens its timeline
	On       string // the anomaly and the strategy
	Verdict  string
}

func newView(style Style, r lab.Report) view {
	g := newGrid(r)
	v := view{RanOn: style.ranOn(r.Manifest), Counts: style.counts(r), Recorded: style.asRecorded(r)}
	for i, s := range g.strategies {
		stage := stageName.FindString(s)
		c := viewColumn{Stage: stage, Rest: s[len(stage):], NewGroup: newGroup(g.strategies, i)}
		c.Breaks, c.Asked = g.broken(s)
		v.Columns = append(v.Columns, c)
	}
	v.Width = 1 + len(v.Columns)
	for i, a := range g.anomalies {
		row := viewRow{Anomaly: style.about(a), Title: style.title(a.Name), Heading: g.heading(i, style)}
		for i, s := range g.strategies {
			c, ran := g.at(a.Name, s)
			vc := style.newViewCell(r.Manifest, c)
			vc.Ran, vc.NewGroup = ran, newGroup(g.strategies, i)
			row.Cells = append(row.Cells, vc)
		}
		v.Rows = append(v.Rows, row)
	}
	for _, c := range r.Unexpected() {
		v.Wrong = append(v.Wrong, style.newViewCell(r.Manifest, c))
	}
	return v
}

func (s Style) newViewCell(m lab.Manifest, c lab.Cell) viewCell {
	class, mark := "unknown", "?"
	switch c.Outcome {
	case lab.Holds:
		class, mark = "holds", "ok"
	case lab.Breaks:
		class, mark = "breaks", "breaks"
	case lab.NA:
		class, mark = "na", "·"
	}
	mark = s.Say(mark)
	if OnlyEndless(m, c) {
		class, mark = class+" endless", mark+" "+endlessMark
	}
	if !c.AsExpected() {
		class, mark = class+" wrong", mark+" !"
	}
	v := viewCell{Cell: c, Class: class, Mark: mark, Link: link(c), On: s.on(c), Verdict: s.verdict(m, c)}
	v.Note = s.Say(c.Note)
	return v
}

func link(c lab.Cell) string {
	return "#" + url.PathEscape(c.Anomaly) + "/" + url.PathEscape(c.Strategy)
}

//go:embed page
var assets embed.FS

var page = present.NewPage(assets, "page")

// HTML writes the report as one file that is opened from disk and needs no
// network: the matrix, and for each cell its timeline. The matrix is rendered
// here, so that it is shown without a script; the browser draws the timelines,
// from the same stories as the terminal.
func HTML(w io.Writer, r lab.Report, s Style) error {
	own := page.File("cell.js", "page.js") // the lanes say what they are told to
	views, reports := []view{newView(s, r)}, []lab.Report{r}
	for _, part := range s.Parts(r) {
		v := newView(s, part.Report)
		v.Title = part.Title
		views, reports = append(views, v), append(reports, part.Report)
	}
	all := newData(s, reports...)
	all.Words = s.Words(own)
	return page.Write(w, s.Style, page.File("style.css"), page.File("lanes.js")+own,
		map[string]any{"Views": views, "Data": all})
}

// Part is a table beside the first one of a report.
type Part struct {
	Title  string
	Report lab.Report
}

// Parts returns the tables beside the first one, in their order.
func (s Style) Parts(r lab.Report) (parts []Part) {
	if r.Holds != nil {
		parts = append(parts, Part{s.Say("A sale by holds"), *r.Holds})
	}
	if r.Behind != nil {
		parts = append(parts, Part{s.Say("Repairs, and orders written behind the sale"), *r.Behind})
	}
	return parts
}

// Lanes returns the JavaScript module that draws a timeline in lanes, also used
// by the report that HTML writes. It draws what Story returns.
func Lanes() []byte { return []byte(page.File("lanes.js")) }

// Told is a cell with its timeline, as the page asks for it. Its JSON form is relied upon.
type Told struct {
	lab.Cell
	Story any `json:"story"`
}

// Tell returns a cell with its Story.
func Tell(m lab.Manifest, c lab.Cell) Told { return Told{c, Story(m, c)} }

// Story returns a cell and its timeline, worked out moment by moment, in the
// form from which the module of Lanes draws, to be marshalled as JSON.
func Story(m lab.Manifest, c lab.Cell) any {
	return newDataCell(Style{}, m, c)
}

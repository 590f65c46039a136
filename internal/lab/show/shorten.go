package show

import (
	"fmt"
	"slices"

	"oversell/internal/lab"
)

// omission is the kind of the row that replaces rows that were left out.
const omission lab.Kind = "omission"

// shorten leaves out rows so that at most limit remain: it keeps the beginning,
// and the rows around the first break, or the end if nothing breaks.
func (s story) shorten(limit int) story {
	n := len(s.rows)
	if n <= limit {
		return s
	}
	head := limit / 2
	tail := limit - head - 2 // 2: for the omissions before and after it
	until := n
	if i := slices.IndexFunc(s.rows, func(r row) bool { return r.kind == lab.Break }); i >= 0 {
		until = min(n, max(i+1+tail/3, head+tail))
	}
	from := until - tail
	rows := slices.Clone(s.rows[:head])
	rows = append(rows, omit(s.rows[head:from])...)
	rows = append(rows, s.rows[from:until]...)
	s.rows = append(rows, omit(s.rows[until:])...)
	return s
}

func omit(rows []row) []row {
	if len(rows) == 0 {
		return nil
	}
	o := rows[len(rows)-1]
	var changes keyChanges
	for _, r := range rows {
		changes = changes.then(r)
	}
	o.keys = changes.keys
	o.actor, o.kind, o.text = everyone, omission, fmt.Sprintf("%s left out", plural(len(rows), "event", "events"))
	o.reply, o.waits, o.answers, o.times = "", false, false, 1
	return []row{o}
}

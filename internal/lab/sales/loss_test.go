//go:build system

package sales

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
)

// Every anomaly says what it costs. Where the note of a broken cell shows that units were sold
// twice, or that something stays taken, it is that, and the worst of what the cells show.
func TestAnomaliesSayWhatIsLost(t *testing.T) {
	shown := 0
	look := func(t *testing.T, _ lab.Config, r lab.Report) {
		for _, a := range r.Anomalies {
			if !slices.Contains(lab.Losses(), a.Loss) {
				t.Errorf("%s: the loss is %q", a.Name, a.Loss)
			}
			worst, note := evidence(r, a.Name)
			if worst == "" {
				continue
			}
			shown++
			if a.Loss != worst {
				t.Errorf("%s: the loss is %s, and a cell shows %s: %s", a.Name, a.Loss, worst, note)
			}
		}
	}
	locks := lab.Config{Redis: lab.Embedded, Subjects: lab.Subjects(), Scenarios: anomalies.All()}
	look(t, locks, run(t, locks))
	eachTable(t, look)
	if shown < 30 {
		t.Errorf("of %d anomalies a cell shows what is lost, want 30", shown)
	}
}

// evidence returns the worst loss that the broken cells of an anomaly show, and the note that
// shows it, or "" if no note does.
func evidence(r lab.Report, anomaly string) (worst lab.Loss, note string) {
	for _, loss := range lab.Losses() {
		for _, c := range r.Cells {
			if c.Anomaly == anomaly && c.Outcome == lab.Breaks && showsLoss(c.Note) == loss {
				return loss, c.Note
			}
		}
	}
	return "", ""
}

var (
	soldOf   = regexp.MustCompile(`^(\d+) of (\d+) units were sold`)
	downBy   = regexp.MustCompile(`^(\d+) units are sold, and the stock is down by (\d+)`)
	atOnce   = regexp.MustCompile(`took the lock while \S+ held it`)
	unserved = []string{"does not get the lock in three times the ttl: ", "are neither sold nor on sale"}
)

// showsLoss returns the loss that a note shows, or "".
func showsLoss(note string) lab.Loss {
	if atOnce.MatchString(note) || tooMany(soldOf, note) || tooMany(downBy, note) {
		return lab.SellsTwice
	}
	if slices.ContainsFunc(unserved, func(text string) bool { return strings.Contains(note, text) }) {
		return lab.Stuck
	}
	return ""
}

// tooMany reports whether the first number in a note is greater than the second.
func tooMany(form *regexp.Regexp, note string) bool {
	m := form.FindStringSubmatch(note)
	if m == nil {
		return false
	}
	var sold, had int
	if _, err := fmt.Sscan(m[1]+" "+m[2], &sold, &had); err != nil {
		return false
	}
	return sold > had
}

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"

	"oversell/internal/locks"
)

// ErrReport is what the errors for a report that cannot be read wrap.
var ErrReport = errors.New("not a report of the bench")

// Bounds of a report that is read. That of 100 runs of 50 rows is well within.
const (
	maxReport   = 256 << 20 // bytes
	maxRead     = 100_000   // rows
	maxNameSize = 500       // bytes of a name, or of what the bench ran on
)

// ReadReport reads a report that WriteJSON wrote. What the summary says it does
// not look at: that is computed from the rows. Its errors are one line each, and
// wrap ErrReport unless reading itself failed.
func ReadReport(from io.Reader) (Report, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxReport+1))
	if err != nil {
		return Report{}, err
	}
	if len(text) > maxReport {
		return Report{}, fmt.Errorf("%w: it has more than %d MiB", ErrReport, maxReport>>20)
	}
	var r Report
	if err := unmarshal(text, &r); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if r.Manifest.Format == 0 {
		r.Manifest.Format = format // one that does not say so is of the first
	}
	if err := r.check(); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	return r, nil
}

// unmarshal reads JSON, and says in a few words what is wrong with it.
func unmarshal(text []byte, r *Report) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("it is empty")
	}
	// Whether a program can read the rest is for the format to say.
	var only struct {
		Manifest *struct {
			Format int `json:"format"`
		} `json:"manifest"`
	}
	err := json.Unmarshal(text, &only)
	if err == nil && only.Manifest != nil && only.Manifest.Format != format && only.Manifest.Format != 0 {
		return fmt.Errorf("it has format %d, and this bench reads format %d", only.Manifest.Format, format)
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(text)):
		return errors.New("the file ends in the middle of the JSON")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON: %s, byte %d", clean(syntax.Error()), syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("it has a JSON %s for %q, byte %d", clean(kind.Value), clean(kind.Field), kind.Offset)
	case err != nil:
		return errors.New(clean(err.Error()))
	case only.Manifest == nil:
		return errors.New("it has no manifest")
	}
	return nil
}

// clean keeps what is shown of a file on one line, and harmless to a terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// check tells what no report of this bench has.
func (r Report) check() error {
	if w := r.Manifest.Workload; w == "lock" {
		return fmt.Errorf("it is of workload %s, whose rows are others: its own table and summary compare them", w)
	}
	switch {
	case len(r.Rows) == 0:
		return errors.New("it has no rows")
	case len(r.Rows) > maxRead:
		return fmt.Errorf("it has %d rows; allowed: %d", len(r.Rows), maxRead)
	}
	if err := r.Manifest.check(); err != nil {
		return fmt.Errorf("the manifest: %w", err)
	}
	for i, row := range r.Rows {
		if err := row.check(r.Manifest); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return nil
}

func (m Manifest) check() error {
	for _, text := range append(append([]string{m.Redis, m.DB, m.Go, m.OS, m.Version, m.Workload, m.TTL, m.Duration, m.Work, m.Wait, m.Retry, string(m.Keys), m.ID}, m.Targets...), m.Flags...) {
		if err := checkText(text); err != nil {
			return err
		}
	}
	switch {
	case m.Redis == "" || m.DB == "":
		return errors.New("it does not say which redis and which database the bench ran on")
	case m.Requests < 0 || m.Stock < 0 || m.Instances < 0 || m.Rate < 0 || m.InFlight < 0:
		return errors.New("it has a negative size")
	}
	return nil
}

// check tells what no row has, or none of a report with the manifest m.
func (r Row) check(m Manifest) error {
	for _, text := range []string{r.Strategy, string(r.Condition), string(r.Workload), string(r.Verdict)} {
		if text == "" {
			return errors.New("it lacks its strategy, condition, workload or verdict")
		}
		if err := checkText(text); err != nil {
			return err
		}
	}
	for _, text := range []string{r.TTL, r.Duration} {
		if err := checkText(text); err != nil {
			return err
		}
	}
	switch {
	case string(r.Workload) != m.Workload:
		return fmt.Errorf("it is of workload %s, and the manifest of %s", r.Workload, m.Workload)
	case r.Stock != m.Stock && r.Workload == locks.Deduct:
		return fmt.Errorf("it had a stock of %d, and the manifest says %d", r.Stock, m.Stock)
	case r.Requests != m.Requests && !r.spread(m):
		return fmt.Errorf("it had %d requests, and the manifest says %d", r.Requests, m.Requests)
	case (r.Open != nil) != (m.Rate > 0 || r.spread(m)):
		return errors.New("it and the manifest differ in whether it had an open load")
	}
	for name, v := range r.figures() {
		if v < 0 && name != "lost_updates" || math.Abs(v) > math.MaxInt64 {
			return fmt.Errorf("%s is %v", name, v)
		}
	}
	return nil
}

// spread reports whether the buyers of the row came one after the other where those of
// the others all came at once, as under a failover.
func (r Row) spread(m Manifest) bool {
	return r.Condition == locks.Failover && r.Open != nil && m.Rate == 0
}

func checkText(text string) error {
	if len(text) > maxNameSize || text != clean(text) {
		return fmt.Errorf("%q is no name", clean(text[:min(len(text), 40)]))
	}
	return nil
}
